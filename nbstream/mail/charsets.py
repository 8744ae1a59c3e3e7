"""Decodes bytes to text in the charset that a message names. Never raises: a wrong name has a fallback.

The fallbacks are UTF-8, then Windows-1252. Mail programs read unlabelled 8-bit text in the same order: UTF-8
checks itself, and Windows-1252 can decode every other byte string.

Rules: wrong bytes cost little more than right ones; Python's own replacement needs 0.1 to 0.3 µs for each of them.
Long text is decoded in slices of ``_SLICE_BYTES``, so that the interpreter lock is never held for long.
"""

from __future__ import annotations

import codecs
import encodings
import pkgutil
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from encodings.aliases import aliases
from functools import cache, lru_cache

# Names in mail that Python does not know, or that are used for a larger charset than their name says.
_ALIASES = {
    "iso-8859-1": "cp1252",  # the WHATWG encoding standard: browsers and mail programs read Latin-1 as 1252
    "latin1": "cp1252",
    "us-ascii": "cp1252",
    "ascii": "cp1252",
    "gb2312": "gb18030",  # its superset: messages labelled gb2312 often use characters that were added later
    "gbk": "gb18030",
    "ks_c_5601-1987": "cp949",
    "ks_c_5601": "cp949",
    "euc-kr": "cp949",
    "iso-8859-8-i": "iso-8859-8",
    "x-sjis": "cp932",
    "shift_jis": "cp932",
    "windows-874": "cp874",
    "unicode-1-1-utf-7": "utf-7",
}


# All names that Python can find a codec by, as ``normalize_encoding`` writes them. Python keeps each other name
# that it was ever asked for, without a bound: mail that names charsets of its own would fill the memory.
_PYTHON_NAMES = frozenset(aliases) | {module.name for module in pkgutil.iter_modules(encodings.__path__)}


@lru_cache(maxsize=256)
def _codec_name(charset: str) -> str | None:
    """Return the Python codec for the name of a charset, or None where it is unknown or not a text encoding."""
    name = charset.strip().strip("\"'").lower()[:64]
    name = _ALIASES.get(name, name)
    normalized = encodings.normalize_encoding(name)
    if _PYTHON_NAMES.isdisjoint((normalized, normalized.replace(".", "_"))):
        return None
    try:
        info = codecs.lookup(name)
    except (LookupError, ValueError):
        return None
    # Codecs such as "zlib" or "rot13" convert bytes to bytes or text to text: a message must not choose them.
    is_text = getattr(info, "_is_text_encoding", True) and info.name.replace("-", "_") not in _UNSAFE_CODECS
    return info.name if is_text else None


_UNSAFE_CODECS = frozenset(
    {"idna", "punycode", "unicode_escape", "raw_unicode_escape", "undefined", "mbcs", "oem"}
)


UTF8_REPLACED = "utf8"
"""The name of UTF-8 that has no fallback: wrong bytes become U+FFFD, and no other charset is tried."""

_REPLACEMENT = "\ufffd"
_UNLABELLED = frozenset({"us-ascii", "utf-8", "ascii"})
_SLICE_BYTES = 64 * 1024
_MAX_CHARACTER_BYTES = 4
_CONTINUATION_BYTES = bytes(range(0x80, 0xC0))  # of UTF-8: no character begins with one
_UTF7_SLICE_BYTES = 256
_BASE64_RUN = re.compile(rb"[A-Za-z0-9+/]*")
_CODE_UNIT_BYTES = {"utf-16-le": 2, "utf-16-be": 2, "utf-32-le": 4, "utf-32-be": 4}
_BYTE_ORDERS = {
    "utf-16": ((codecs.BOM_UTF16_LE, "le"), (codecs.BOM_UTF16_BE, "be")),
    "utf-32": ((codecs.BOM_UTF32_LE, "le"), (codecs.BOM_UTF32_BE, "be")),
}


def decode_text(content: bytes, charset: str | None) -> str:
    """Return ``content`` as text in ``charset``; where that is unknown or wrong, as UTF-8, else Windows-1252."""
    codec = _labelled_codec(charset)
    if codec is None:
        return _decode_unlabelled(content)
    try:
        return _decode(content, codec)
    except (UnicodeError, ValueError, OverflowError):
        return _decode_unlabelled(content)


def decode_long_text(content: bytes, charset: str | None) -> str:
    """Return ``content`` as ``decode_text`` does, but as if it had no charset where UTF-7 is wrong in many places.

    A place that is wrong in UTF-7 costs a hundred times as much as one that is right. One in 64 is read.
    """
    if _labelled_codec(charset) != "utf-7":
        return decode_text(content, charset)
    decoder = codecs.getincrementaldecoder("utf-7")("replace")
    texts: list[str] = []
    wrong_left = _UTF7_SLICE_BYTES + len(content) // 64
    for slice_ in _utf7_slices(content, _UTF7_SLICE_BYTES):
        texts.append(decoder.decode(slice_))
        wrong_left -= texts[-1].count(_REPLACEMENT)
        if wrong_left < 0:
            return _decode_unlabelled(content)
    return "".join((*texts, decoder.decode(b"", final=True)))


def _utf7_slices(content: bytes, size: int) -> Iterator[bytes]:
    """Yield ``content`` in slices of ``size`` bytes, each of which ends where no run of base64 goes on.

    The decoder of UTF-7 consumes nothing of a run before its end: it would decode a long run anew with each slice.
    Every other incremental decoder of Python keeps some bytes at most.
    """
    start = 0
    while start < len(content):
        run = _BASE64_RUN.match(content, start + size)
        end = run.end() if run else len(content)
        yield content[start:end]
        start = end


def decode_ends(content: bytes, charset: str | None, head_bytes: int, tail_bytes: int) -> tuple[str, str]:
    """Return the beginning and the end of what ``decode_text`` returns for ``content``, without the middle.

    The beginning has at least ``head_bytes`` bytes in UTF-8, and the end at least ``tail_bytes``. Where the text
    is little longer than that, all of it is the beginning. No more is decoded: a text of 50 MB costs little more
    than one of 1 MB. In a charset that shifts, the end may begin with wrong characters. Without a charset, each
    end is what it looks like.
    """
    codec = _labelled_codec(charset)
    if codec is not None:
        content, codec = _without_byte_order_mark(content, codec)
    name = UTF8_REPLACED if codec == "utf-8" else codec
    # No character has more than four bytes, apart from shifts, and each has at least one byte in UTF-8. A multiple
    # of four is the beginning of a character of UTF-16 and UTF-32.
    tail_start = (len(content) - 4 * tail_bytes - _SLICE_BYTES) & ~3
    if tail_start <= 4 * head_bytes:
        return decode_text(content, name), ""
    for factor in (1, 4):
        head = decode_text(content[: factor * head_bytes], name)
        if len(head.encode("utf-8", "replace")) > head_bytes + _MAX_CHARACTER_BYTES:  # a cut one is behind them
            break
    tail = content[tail_start:]
    return head, decode_text(tail.lstrip(_CONTINUATION_BYTES) if codec is None else tail, name)


def _labelled_codec(charset: str | None) -> str | None:
    """Return the codec that a message names; None where it names none, or one that says nothing."""
    return None if charset is None or charset.lower() in _UNLABELLED else _codec_name(charset[:64])


def _without_byte_order_mark(content: bytes, codec: str) -> tuple[bytes, str]:
    """Return UTF-16 and UTF-32 without the mark of byte order, and the codec of that order."""
    for name, orders in _BYTE_ORDERS.items():
        if codec == name:
            for mark, order in orders:
                if content.startswith(mark):
                    return content[len(mark) :], f"{name}-{order}"
            return content, f"{name}-{sys.byteorder[0]}e"
    return content, codec


def _decode(content: bytes, codec: str) -> str:
    """Return the text of ``content``, with U+FFFD for wrong bytes."""
    table = _single_byte_table(codec)
    if table is not None:
        return codecs.charmap_decode(content, "replace", table)[0]
    content, codec = _without_byte_order_mark(content, codec)
    content = _without_wrong_units(content, codec)
    if len(content) > _SLICE_BYTES:
        with suppress(UnicodeError):  # an incremental decoder keeps eight bytes, and a wrong escape may be longer
            return "".join(_decode_slices(content, codec))
    return content.decode(codec, "replace")


def _decode_slices(content: bytes, codec: str) -> Iterator[str]:
    """Yield the text of ``content``, slice by slice, with U+FFFD for wrong bytes. May raise ``UnicodeError``."""
    table = _single_byte_table(codec)
    if table is not None:
        for start in range(0, len(content), _SLICE_BYTES):
            yield codecs.charmap_decode(content[start : start + _SLICE_BYTES], "replace", table)[0]
        return
    decoder = codecs.getincrementaldecoder(codec)("replace")
    if codec == "utf-7":
        yield from map(decoder.decode, _utf7_slices(content, _SLICE_BYTES))
    else:
        for start in range(0, len(content), _SLICE_BYTES):
            yield decoder.decode(content[start : start + _SLICE_BYTES])
    yield decoder.decode(b"", final=True)


@cache
def _single_byte_table(codec: str) -> str | None:
    """Return the 256 characters of a charset of single bytes, with U+FFFD for those that it does not have.

    It is None for every other charset.
    """
    module = sys.modules.get(getattr(codecs.lookup(codec).incrementaldecoder, "__module__", ""))
    table = getattr(module, "decoding_table", None)
    return table.replace("\ufffe", _REPLACEMENT) if isinstance(table, str) else None


def _without_wrong_units(content: bytes, codec: str) -> bytes:
    """Return ``content`` with U+FFFD for each wrong code unit of UTF-16 or UTF-32; the last may be incomplete."""
    size = _CODE_UNIT_BYTES.get(codec, 0)
    if not size or len(content) <= size:
        return content
    import numpy as np  # noqa: PLC0415 - few commands need it

    units = np.frombuffer(content, f"{'>' if codec.endswith('-be') else '<'}u{size}", len(content) // size)
    if size == 4:
        wrong = (units > sys.maxunicode) | ((units >= 0xD800) & (units < 0xE000))
    else:
        first, second = (units & 0xFC00) == 0xD800, (units & 0xFC00) == 0xDC00
        is_pair = first[:-1] & second[1:]
        wrong = first | second
        wrong[:-1] &= ~is_pair
        wrong[1:] &= ~is_pair
    wrong[-1] = False  # the decoder sees that the last character is incomplete
    if not wrong.any():
        return content
    return np.where(wrong, ord(_REPLACEMENT), units).astype(units.dtype).tobytes() + content[units.nbytes :]


def _decode_unlabelled(content: bytes) -> str:
    if content.isascii():
        return content.decode("ascii")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        before = content[: error.start]
        if error.end == len(content) and not before.isascii():
            return before.decode("utf-8")  # only the last character is incomplete: the text was cut there
        return _decode(content, "cp1252")
