"""A file of the quarantine: any bytes are refused with the documented error, or have a note and a message."""

from __future__ import annotations

import tempfile
from pathlib import Path

from nbstream.delivery.next_hop import Envelope, SmtpPath
from nbstream.delivery.quarantine import (
    Quarantine,
    QuarantineFile,
    QuarantineNote,
    read_header_texts,
    read_message,
)
from nbstream.errors import InputError
from nbstream.mail.lines import normalize_line_ends
from nbstream.mail.message import Message
from nbstream.server.quarantine_release import shown_text
from tests.fuzz.target import Choices, FuzzTarget

_FOLDER = tempfile.TemporaryDirectory(prefix="nbstream-fuzz-")
_FILE = Path(_FOLDER.name) / "1.x,I=a"
_MESSAGE = QuarantineFile("a" * 24, 1.0, _FILE, in_doubt=False)


def _check(data: bytes) -> None:
    _FILE.write_bytes(data)
    try:
        note, raw = read_message(_MESSAGE)
    except InputError:
        pass
    else:
        assert normalize_line_ends(raw) == raw
        assert read_header_texts(_MESSAGE, ("subject",))[0] == note or note.probability != note.probability
        shown = shown_text(Message.parse(raw))
        assert sum(map(len, shown.parts)) <= 20_000
    _check_round_trip(data)


def _check_round_trip(data: bytes) -> None:
    choices = Choices(data)
    cut = choices.number(200)
    address = choices.rest[:cut].decode("utf-8", "surrogateescape")
    content = choices.rest[cut:]
    note = QuarantineNote(
        "a" * 24, "spam", 0.99, "default", Envelope(SmtpPath(address, ("SIZE=1", address)), (SmtpPath(address),))
    )
    (draft,) = Quarantine(Path(_FOLDER.name)).make_drafts([(note, b"X-Nbstream: spam\n", content)])
    _FILE.write_bytes(draft.head + content)
    assert read_message(_MESSAGE) == (note, normalize_line_ends(b"X-Nbstream: spam\n" + content))


_NOTE = (
    b'X-Nbstream-Quarantine: {"id": "aaaaaaaaaaaaaaaaaaaaaaaa",\n\t"verdict": "spam",\n\t"probability": 0.99,\n\t'
    b'"policy": "",\n\t'
    b'"envelope": {"sender": {"address": "a@b",\n\t"parameters": []},\n\t'
    b'"recipients": [{"address": "c@d",\n\t"parameters": ["X=1"]}]}}\n'
)

TARGET = FuzzTarget(
    _check,
    (
        _NOTE + b"Subject: =?utf-8?q?caf=C3=A9?=\n\ntext\n",
        _NOTE + b"Content-Type: text/html\n\n<HTML><STYLE>no</STYLE><P TITLE=a>&amp;" + b"text " * 5000,
        _NOTE.replace(b"0.99", b"NaN") + b"\tcontinues\n",
        _NOTE[:60],
        _NOTE.replace(b"[{", b"[" * 2000),
        b'\x07a b"\\<>\xff\r\nSubject: x\n\ntext',
        b"",
    ),
    words=(
        b'"recipients": []',
        b"\n\t",
        b"null",
        b"{}",
        b"[]",
        b'"address": 1',
        b"\\ud800",
        b"X-Nbstream-Quarantine: ",
    ),
    mutations=300,
)
