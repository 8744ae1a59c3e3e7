"""Text in a charset that the message names: the name and the content have a NUL between them."""

from __future__ import annotations

import sys

from nbstream.mail.charsets import decode_text
from tests.fuzz.target import FuzzTarget

_MAX_CHARACTERS_PER_BYTE = 3


def _check(data: bytes) -> None:
    modules = len(sys.modules)
    name, _, content = data.partition(b"\0")
    charset = name.decode("latin-1")
    text = decode_text(content, charset)
    assert decode_text(content, charset) == text
    assert len(text) <= _MAX_CHARACTERS_PER_BYTE * len(content) + 1
    text.encode("utf-8", "surrogatepass")
    assert len(sys.modules) <= modules + 5  # a name finds a codec of Python, and no other module
    written = content.decode("utf-8", "ignore")
    for unlabelled in (None, "utf-8", "us-ascii", "no such charset"):
        assert decode_text(written.encode(), unlabelled) == written


_NAMES = (
    "utf-8",
    "utf-7",
    "utf-16",
    "utf-16le",
    "utf-32",
    "iso-8859-1",
    "windows-1253",
    "gb2312",
    "gb18030",
    "hz",
    "iso-2022-jp",
    "iso-2022-kr",
    "big5",
    "shift_jis",
    "euc-jp",
    "euc-kr",
    "ks_c_5601-1987",
    "tis-620",
    "koi8-r",
    "idna",
    "punycode",
    "unicode_escape",
    "rot13",
    "zlib",
    "mbcs",
    "cp037",
    "mac-arabic",
    "johab",
)

TARGET = FuzzTarget(
    _check,
    (
        *(name.encode() + b'\0text \xd2\xd3\xbd \x1b$B$"\x1b(B ~{<:~} +AOQ- \\x41 xn--a' for name in _NAMES),
        b'"UTF-8"\0caf\xc3\xa9',
        b"\0\xff\xfe",
    ),
    words=tuple(name.encode() + b"\0" for name in _NAMES),
    max_bytes=1000,
    mutations=2000,
)
