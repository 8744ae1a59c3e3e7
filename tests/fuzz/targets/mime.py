"""The MIME tree: bounded in parts and depth, and the same key whatever a server on the way may change."""

from __future__ import annotations

import re
from itertools import pairwise

from nbstream.mail.message import Message
from nbstream.mail.mime import MessageLimits, parse_parts
from tests.fuzz.target import FuzzTarget

_LIMITS = MessageLimits(look_bytes=70_000, max_parts=8, max_depth=4)
_KEY = re.compile(r"[a-z2-7]{24}")


def _check(data: bytes) -> None:
    message = Message.parse(data, _LIMITS)
    raw = message.raw
    parts = parse_parts(raw, _LIMITS)
    assert 1 <= len(parts) <= _LIMITS.max_parts
    assert parts[0].depth == 0
    # Parts come in document order: one level down only below a container.
    for before, part in pairwise(parts):
        assert 1 <= part.depth <= before.depth + before.is_container <= _LIMITS.max_depth
    assert all(part.payload == b"" for part in parts if part.is_container)
    payloads = sum(len(part.payload) for part in parts)
    assert payloads <= len(raw)
    assert sum(len(part.text) for part in parts) <= 3 * payloads + len(parts)
    assert len(message.unread_end) <= 3 * len(raw)
    assert _KEY.fullmatch(message.key)
    assert Message.parse(raw, _LIMITS).key == message.key
    if b"\r" not in data:
        assert Message.parse(data.replace(b"\n", b"\r\n"), _LIMITS).key == message.key
    if message.is_mail and raw[:1] not in {b" ", b"\t", b"\r"}:
        assert Message.parse(b"Received: from a by b\r\n" + raw, _LIMITS).key == message.key


TARGET = FuzzTarget(
    _check,
    (
        b"From: a@example.org\nSubject: =?utf-8?q?=C3=A4?=\nContent-Type: multipart/alternative; boundary=b\n\n"
        b"--b\n\nplain\n"
        b"--b\nContent-Type: text/html; charset=utf-8\nContent-Transfer-Encoding: base64\n\nPGI+aGk8L2I+\n--b--\n",
        b"Subject: x\r\nContent-Type: message/rfc822\r\n\r\nSubject: y\r\nContent-Type: "
        b"text/plain; charset=utf-16\r\n\r\n\xff\xfea\0",
        b"Content-Type: multipart/digest; boundary=b\n\n--b\n\nSubject: 1\n\n1\n--bc\n--b \nSubject: 2\n",
        b"Date: x\nContent-Disposition: attachment; filename*=utf-8''%c3%a4.exe\n"
        b"Content-Type: application/pdf\n\n%PDF",
        b'Content-Type: multipart/mixed; boundary=""\n\n--\n\na\n----\n',
        b"a text that is no mail",
    ),
    words=(
        *(
            b"\n--b\n",
            b"\n--b--",
            b"boundary=b",
            b"Content-Type: multipart/mixed; boundary=b\n",
            b"message/rfc822",
        ),
        *(
            b"Content-Transfer-Encoding: quoted-printable\n",
            b"charset=",
            b"\n\n",
            b"Subject: ",
            b"Message-ID: <1@x>\n",
        ),
    ),
    mutations=800,
)
