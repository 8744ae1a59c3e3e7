"""Text in the charset that a message names."""

from __future__ import annotations

import codecs
import encodings
from encodings.aliases import aliases

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbstream.mail.charsets import _UNSAFE_CODECS, _codec_name, decode_text


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


def test_unknown_names_leave_nothing_in_memory() -> None:
    cached: dict[str, object] = vars(encodings)["_cache"]
    before = len(cached)

    for number in range(1000):
        decode_text(b"a", f"no-such-charset-{number}")

    assert len(cached) == before


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
