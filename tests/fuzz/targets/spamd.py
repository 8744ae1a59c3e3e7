"""The spamd codec: any bytes are a request or a refusal, however they are cut, and an answer is well-formed."""

from __future__ import annotations

import zlib

from nbstream.listeners.spamd.codec import (
    SpamdParser,
    SpamdRefusal,
    SpamdRequest,
    decompress,
    render_check,
)
from nbstream.mail import header_edits, header_fields
from nbstream.mail.header_edits import HeaderEdits
from nbstream.mail.lines import normalize_line_ends
from nbstream.policy.verdict import Verdict
from tests.fuzz.target import FuzzTarget

_LIMIT = 400
_EDITS = HeaderEdits((("X-Own", "1"),), ("X-Own",), "X-Guard")
_MESSAGE = b"Subject: x\r\n\r\ntext\r\n"


def _check(data: bytes) -> None:
    step = 1 + (data[-1] if data else 0) % 7
    cut, whole = SpamdParser(_LIMIT), SpamdParser(_LIMIT)
    events = whole.feed(data) + whole.end()
    pieces = [data[start : start + step] for start in range(0, len(data), step)]
    assert [event for piece in pieces for event in cut.feed(piece)] + cut.end() == events
    assert [type(event) for event in events] in ([SpamdRequest], [SpamdRefusal], [SpamdRequest, SpamdRefusal])
    for event in events:
        if isinstance(event, SpamdRefusal):
            assert event.render().decode("ascii").strip().isprintable()
        else:
            _check_request(event)


def _check_request(request: SpamdRequest) -> None:
    assert len(request.body) <= _LIMIT
    assert request.user.isascii()
    assert not request.user or request.user.isprintable()
    bodies = list(decompress(request.body, _LIMIT)) if request.compressed else [request.body]
    body = b"".join(piece for piece in bodies if isinstance(piece, bytes))
    assert len(body) <= _LIMIT
    head, rest = header_edits.split_header_and_body(body)
    assert head + rest == body
    marked = normalize_line_ends(header_edits.rewrite_header(head, _EDITS))
    names = [field.name for field in header_fields.parse_fields(marked, header_fields.body_offset(marked))]
    assert names.count("x-own") == 1
    assert render_check(request, Verdict.UNSURE, 0.0, 1.0, body).endswith(body if request.minor >= 3 else b"")


TARGET = FuzzTarget(
    _check,
    (
        b"CHECK SPAMC/1.5\r\nContent-length: 20\r\nUser: ann\r\n\r\n" + _MESSAGE,
        b"PROCESS SPAMC/1.2\nContent-length: 20\n\n" + _MESSAGE,
        b"HEADERS SPAMC/1.3\r\n\r\n" + _MESSAGE.replace(b"\r", b""),
        b"HEADERS SPAMC/1.5\r\nVerdict: yes\r\n\r\n" + _MESSAGE,
        b"REPORT_IFSPAM SPAMC/1.0\r\nCONTENT-LENGTH:19\r\n\r\n" + _MESSAGE,
        b"TELL SPAMC/1.4\r\nMessage-class: spam\r\nSet: local, remote\r\nContent-length: 20\r\n\r\n" + _MESSAGE,
        b"TELL SPAMC/1.4\r\nRemove: local\r\nContent-length: 20\r\n\r\n" + _MESSAGE,
        b"SYMBOLS SPAMC/1.5\r\nCompress: zlib\r\nContent-length: 28\r\n\r\n" + zlib.compress(_MESSAGE),
        b"REPORT SPAMC/1.5\r\nCompress: zlib\r\nContent-length: 20\r\n\r\n" + zlib.compress(b"\0" * 9000),
        b"PING SPAMC/1.2\r\n\r\n",
        b"SKIP SPAMC/1.2\r\n",
    ),
    words=(
        b"Content-length: ",
        b"Compress: zlib",
        b"Message-class: ham",
        b"Remove: ",
        b" SPAMC/1.",
        b"X-Own: 1\r\n",
    ),
    mutations=1500,
)
