"""A file on the command line: it is refused with a reason, or split into messages, and no text is lost."""

from __future__ import annotations

import tempfile
from pathlib import Path

from nbstream.cli.message_files import read_messages
from nbstream.errors import NbstreamError
from tests.fuzz.target import FuzzTarget

_FOLDER = tempfile.TemporaryDirectory(prefix="nbstream-fuzz-")
_FILE = Path(_FOLDER.name) / "m"
_FROM = b"From ann@example.org Sat Nov 21 10:00:00 2026\n"


def _check(data: bytes) -> None:
    messages = _read(data)
    assert sum(map(len, messages)) <= len(data)
    if data and not data.startswith(b"From ") and messages:
        assert messages == [data]
    text = data.replace(b"\r", b"")
    quoted = b"".join(
        b">" + line if line.lstrip(b">").startswith(b"From ") else line for line in text.splitlines(keepends=True)
    )
    assert _read(_FROM + quoted + b"\n\n" + _FROM + b"Subject: 2\n\nend\n\n") == [
        text + (b"\n" if text else b"") if text else b"\n",
        b"Subject: 2\n\nend\n",
    ]


def _read(content: bytes) -> list[bytes]:
    _FILE.write_bytes(content)
    errors: list[NbstreamError] = []
    messages = list(read_messages([str(_FILE)], errors))
    assert bool(messages) != bool(errors)
    return [message.raw for message in messages]


TARGET = FuzzTarget(
    _check,
    (
        b"Subject: a\n\nFrom the top\n",
        _FROM + b"Subject: a\n\n>From x\n>>From y\n\n" + _FROM + b"Subject: b\n\ntext\n\n",
        b"From \nFrom \n\n" + _FROM,
        b"\x1f\x8b\0binary",
        b"\n\n",
    ),
    words=(_FROM, b"\n\nFrom ", b">From ", b"10:00", b"\0", b"\r\n"),
    max_bytes=2000,
    mutations=300,
)
