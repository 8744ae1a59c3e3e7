"""Decodes bytes to text in the charset that a message names. Never raises: a wrong name has a fallback.

The fallbacks are UTF-8, then Windows-1252. Mail programs read unlabelled 8-bit text in the same order: UTF-8
checks itself, and Windows-1252 can decode every other byte string.
"""

from __future__ import annotations

import codecs
import encodings
import pkgutil
from encodings.aliases import aliases
from functools import lru_cache

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


def decode_text(content: bytes, charset: str | None) -> str:
    """Return ``content`` as text in ``charset``; where that is unknown or wrong, as UTF-8, else Windows-1252."""
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
            return before.decode("utf-8")  # only the last character is incomplete: the text was cut there
        return content.decode("cp1252", "replace")
