"""Parameters of structured fields: bounded, and what is written as RFC 2045 and RFC 2231 say is read again."""

from __future__ import annotations

import re
from urllib.parse import quote_from_bytes

from nbstream.mail.mime import parse_parameters
from tests.fuzz.target import FuzzTarget

_ESCAPED = re.compile(r'(["\\])')
_READ = 1000  # characters of a value


def _check(data: bytes) -> None:
    main, parameters = parse_parameters(data)
    assert main == main.lower()
    assert parse_parameters(data) == (main, parameters)
    assert all(name == name.lower() for name in parameters)
    assert sum(map(len, parameters.values())) <= 4 * len(data)

    text = data.decode("utf-8", "replace")
    encoded = quote_from_bytes(text.encode(), safe="").encode()
    half = text[: len(text) // 2].encode()
    sections = b"a/b; n*0*=utf-8''%s; n*1*=%s" % (
        quote_from_bytes(half, safe="").encode(),
        quote_from_bytes(text.encode()[len(half) :], safe="").encode(),
    )
    assert parse_parameters(b"a/b; n*=utf-8''" + encoded)[1]["n"] == text
    assert parse_parameters(sections)[1]["n"] == text
    if text.isascii() and text.isprintable() and "=?" not in text:
        quoted = _ESCAPED.sub(r"\\\1", text).encode()
        assert parse_parameters(b'A/B ; x=y; N = "%s"; z=1' % quoted) == (
            "a/b",
            {"x": "y", "n": text[:_READ].strip(), "z": "1"},
        )


TARGET = FuzzTarget(
    _check,
    (
        b'text/plain; charset=utf-8; format="flowed"',
        b"attachment; filename*=utf-8''na%C3%AFve%20file.pdf",
        b"attachment; filename*0*=utf-8''a%20; filename*1=b; filename*2*=%63",
        b'multipart/mixed;\r\n\tboundary="a\\"b"; charset',
        b"text/html; name==?utf-8?b?w6Q=?=; name*10=x; name*9999=y",
        b'x; a="unclosed',
    ),
    words=(b"; ", b"*0*=", b"*=utf-8''", b"'", b"%", b'"', b"\\", b"=?utf-8?q?", b"charset=", b"*1="),
    max_bytes=2000,
    mutations=2000,
)
