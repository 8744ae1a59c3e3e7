"""Text in the charset that a message names."""

from __future__ import annotations

import codecs
from encodings.aliases import aliases

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nbstream.mail.charsets import (
    _SLICE_BYTES,
    _UNSAFE_CODECS,
    _codec_name,
    _utf7_slices,
    decode_ends,
    decode_long_text,
    decode_text,
)


@pytest.mark.parametrize(
    ("content", "charset", "text"),
    [
        (b"plain", None, "plain"),
        ("café".encode(), None, "café"),
        ("café".encode("latin-1"), None, "café"),
        ("€".encode("cp1252"), "iso-8859-1", "€"),
        ("привет".encode("koi8-r"), "KOI8-R", "привет"),
        ("你好".encode("gb18030"), "gb2312", "你好"),
        ("안녕".encode("cp949"), "ks_c_5601-1987", "안녕"),
        ("café".encode(), "us-ascii", "café"),
        (b"x\x9c", "zlib", "xœ"),
        (b"x", "rot13", "x"),
        (b"\\u0041", "unicode_escape", "\\u0041"),
        (b"abc", "no such charset", "abc"),
        (b"abc", "a\0b", "abc"),
        ("één €".encode()[:-1], "utf-8", "één "),
    ],
)
def test_a_charset_is_used_where_it_can_be(content: bytes, charset: str | None, text: str) -> None:
    assert decode_text(content, charset) == text


@pytest.mark.parametrize("name", sorted({*aliases, *aliases.values()} - {"mbcs", "oem"}))
def test_every_name_that_python_knows_is_a_known_name(name: str) -> None:
    for written in (name, name.upper(), name.replace("_", "-"), name.replace("_", " "), f" {name}"):
        try:
            codec = codecs.lookup(written.strip().lower())
        except LookupError:
            continue
        is_text = getattr(codec, "_is_text_encoding", True)
        assert (_codec_name(written) is not None) == (
            is_text and codec.name.replace("-", "_") not in _UNSAFE_CODECS
        )


@given(
    st.binary(max_size=100),
    st.one_of(st.none(), st.text(max_size=20), st.sampled_from(["utf-7", "utf-16", "hz", "idna"])),
)
def test_decoding_never_raises(content: bytes, charset: str | None) -> None:
    decode_text(content, charset)


PIECES = [b"\xd8", b"\xdc", b"\0", b"A", b"+", b"\x1b", b"$B", b"~{", b"\x0e"]
CODECS = sorted({codec for codec in map(_codec_name, aliases.values()) if codec} - {"ascii", "utf-8", "iso8859-1"})


@pytest.mark.parametrize("name", CODECS)
@settings(max_examples=10)  # for each of 84 codecs
@given(content=st.binary(max_size=300) | st.lists(st.sampled_from(PIECES)).map(b"".join))
def test_wrong_bytes_are_replaced_as_python_does(name: str, content: bytes) -> None:
    """The key of a message depends on it."""
    long = content * (_SLICE_BYTES // max(1, len(content)) + 2)
    for text in (content, long):
        assert decode_text(text, name) == text.decode(name, "replace")


@pytest.mark.parametrize(
    "charset", ["utf-8", "utf8", "windows-1253", "utf-16", "utf-16-be", "utf-32", "gb18030", None]
)
@pytest.mark.parametrize("size", [100, 5_000, 400_000])
def test_both_ends_of_a_text_are_those_of_the_whole(charset: str | None, size: int) -> None:
    text = "".join(f"w{number} \u03b1\u03b2 " for number in range(size // 10))
    content = text.encode(charset or "utf-8", "replace")
    whole = decode_text(content, charset)

    head, tail = decode_ends(content, charset, 2_000, 500)

    assert whole.startswith(head)
    assert head == whole if not tail else len(head.encode()) >= 2_000
    assert whole[-100:] == (tail or head)[-100:]


@pytest.mark.parametrize("order", ["le", "be"])
def test_the_end_of_a_text_has_the_byte_order_that_its_beginning_says(order: str) -> None:
    mark = {"le": codecs.BOM_UTF16_LE, "be": codecs.BOM_UTF16_BE}[order]
    content = mark + "abcdefgh".encode(f"utf-16-{order}") * 100_000

    assert decode_ends(content, "utf-16", 1000, 1000)[1].endswith("abcdefgh")


@given(
    st.lists(st.sampled_from([b"+", b"-", b"\n", b"text", b"+AOQ-", b"A" * 300, b"+2D3eAA-", b"/"]), max_size=60)
)
def test_utf7_in_slices_is_the_same_text_and_no_run_is_cut(pieces: list[bytes]) -> None:
    content = b"".join(pieces)
    assert decode_long_text(content, "utf-7") == content.decode("utf-7", "replace")
    slices = list(_utf7_slices(content, 256))
    assert b"".join(slices) == content
    is_base64 = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
    assert not [after for after in slices[1:] if after[0] in is_base64]
