"""Changes that servers make to a message on its way, and that must not make another message of it."""

from __future__ import annotations

import base64
import email
import quopri
import re
from collections.abc import Callable
from email.message import Message as ForeignMessage
from random import Random

TRACE = (
    b"Received: from mx.example.org (mx.example.org [192.0.2.1])\r\n\tby mail.example.net with ESMTPS id 4Yq7;"
    b"\r\n\tMon, 3 Feb 2025 10:20:30 +0100\r\n",
    b"Return-Path: <bounces@example.org>\r\n",
    b"Delivered-To: you@example.net\r\n",
    b"Authentication-Results: mail.example.net; dkim=pass header.d=example.org\r\n",
)
VERDICTS = (
    b"X-Spam-Flag: YES\r\n",
    b"X-Spam-Status: Yes, score=9.1 required=5.0\r\n\ttests=A,B,C\r\n",
    b"X-Nbstream: spam, P=0.99999\r\n",
)

RelayChange = Callable[[bytes, Random], bytes]
"""Takes a message with CRLF line ends and returns the changed message."""


def _split(raw: bytes) -> tuple[list[bytes], bytes]:
    """The header fields, each with its continuation lines, and the body with the empty line before it."""
    if raw.startswith(b"\r\n"):
        return [], raw
    header, blank, body = raw.partition(b"\r\n\r\n")
    return re.split(rb"(?<=\r\n)(?![ \t])", header + b"\r\n")[: None if blank else -1], blank[2:] + body


def _with_fields(raw: bytes, change: Callable[[bytes], bytes]) -> bytes:
    fields, rest = _split(raw)
    return b"".join(map(change, fields)) + rest


def trace(raw: bytes, draw: Random) -> bytes:
    """The message with trace fields above all others."""
    return b"".join(draw.choices(TRACE, k=3)) + raw


def verdicts(raw: bytes, draw: Random) -> bytes:
    """The message with verdict fields of other filters below all others."""
    fields, rest = _split(raw)
    return b"".join([*fields, *draw.sample(VERDICTS, 2)]) + rest


def shuffle_trace(raw: bytes, draw: Random) -> bytes:
    """The message with its fields in another order; fields of one name keep their order."""
    fields, rest = _split(raw)
    groups: dict[bytes, list[bytes]] = {}
    for field in fields:
        groups.setdefault(field.partition(b":")[0].rstrip().lower(), []).append(field)
    shuffled = draw.sample(list(groups.values()), len(groups))
    return b"".join(field for group in shuffled for field in group) + rest


def unfold(raw: bytes, draw: Random) -> bytes:
    """The message with each field on one line."""
    return _with_fields(raw, lambda field: re.sub(rb"\r\n(?=[ \t])", b"", field))


def fold(raw: bytes, draw: Random) -> bytes:
    """The message with fields folded at some spaces; a tab replaces a space only in fields without quotes."""

    def broken(field: bytes) -> bytes:
        folds = _FOLDS[:-1] if b'"' in field else _FOLDS
        return re.sub(rb"(?<=\S) (?=\S)", lambda _: draw.choice(folds), field)

    return _with_fields(raw, broken)


_FOLDS = (b" ", b" ", b"\r\n ", b"\r\n\t")


def respell(raw: bytes, draw: Random) -> bytes:
    """The message with its field names in capitals."""
    return _with_fields(raw, lambda field: re.sub(rb"^[^:]*", lambda name: name[0].upper(), field, count=1))


def lf_line_ends(raw: bytes, draw: Random) -> bytes:
    """The message with LF line ends, as in most mailboxes."""
    return raw.replace(b"\r\n", b"\n")


def recode(raw: bytes, encoding: str) -> bytes:
    """The message with every text part in this transfer encoding, written by the standard library."""
    fields, rest = _split(raw)
    unfolded = (
        b"".join(re.sub(rb"\r\n(?=[ \t])", b"", field) for field in fields) + rest
    )  # the standard library does not know folded encodings
    message = email.message_from_bytes(unfolded)
    for part in message.walk():
        if not part.is_multipart() and part.get_content_maintype() == "text":
            _recode_part(part, encoding)
    return re.sub(rb"\r?\n", b"\r\n", message.as_bytes())


def _recode_part(part: ForeignMessage, encoding: str) -> None:
    content = part.get_payload(decode=True)
    assert isinstance(content, bytes)
    del part["Content-Transfer-Encoding"]
    part["Content-Transfer-Encoding"] = encoding
    match encoding:
        case "base64":
            encoded = base64.encodebytes(content)
        case "quoted-printable":
            encoded = quopri.encodestring(content)
        case _:
            encoded = content
    part.set_payload(encoded.decode("ascii", "surrogateescape"))


def base64_coded(raw: bytes, draw: Random) -> bytes:
    return recode(raw, "base64")


def quoted_printable(raw: bytes, draw: Random) -> bytes:
    return recode(raw, "quoted-printable")


def eight_bit(raw: bytes, draw: Random) -> bytes:
    return recode(raw, "8bit")


RELAY_CHANGES: tuple[RelayChange, ...] = (trace, verdicts, shuffle_trace, unfold, fold, respell)
ENCODINGS: tuple[RelayChange, ...] = (base64_coded, quoted_printable, eight_bit)
