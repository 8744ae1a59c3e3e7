"""Bytes to text in whatever charset a message claims. Never raises: a wrong claim falls back.

The order of the fallbacks, UTF-8 then Windows-1252, is what mail programs do with unlabelled 8-bit text:
UTF-8 is self-checking, and Windows-1252 gives every other byte string some letters.
"""

from __future__ import annotations

import codecs
from functools import lru_cache

# Names that mail uses and Python does not know, or that are used for a wider set than their name says.
_ALIASES = {
    "iso-8859-1": "cp1252",  # the WHATWG encoding standard: browsers and mailers read Latin-1 as 1252
    "latin1": "cp1252",
    "us-ascii": "cp1252",
    "ascii": "cp1252",
    "gb2312": "gb18030",  # its superset: messages labelled gb2312 often use its later characters
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


@lru_cache(maxsize=256)
def _codec_name(charset: str) -> str | None:
    """The Python codec for a charset's name in mail, or None where it is unknown or no text encoding."""
    name = charset.strip().strip("\"'").lower()[:64]
    try:
        info = codecs.lookup(_ALIASES.get(name, name))
    except (LookupError, ValueError):
        return None
    # Codecs such as "zlib" or "rot13" turn bytes to bytes or text to text: a message must not choose those.
    text = getattr(info, "_is_text_encoding", True) and info.name.replace("-", "_") not in _UNSAFE_CODECS
    return info.name if text else None


_UNSAFE_CODECS = frozenset(
    {"idna", "punycode", "unicode_escape", "raw_unicode_escape", "undefined", "mbcs", "oem"}
)


def decode_text(content: bytes, charset: str | None) -> str:
    """``content`` as text in ``charset``; where that is unknown or wrong: UTF-8, else Windows-1252."""
    if charset is None or charset.lower() in {"us-ascii", "utf-8", "ascii"}:
        return _decode_unlabelled(content)
    codec = _codec_name(charset[:64])
    if codec is None:
        return _decode_unlabelled(content)
    try:
        return content.decode(codec, "replace")
    except (UnicodeError, ValueError, OverflowError):
        return _decode_unlabelled(content)


def _decode_unlabelled(content: bytes) -> str:
    if content.isascii():
        return content.decode("ascii")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        before = content[: error.start]
        if error.end == len(content) and not before.isascii():
            return before.decode("utf-8")  # only its last character is cut: the text was looked at no further
        return content.decode("cp1252", "replace")
