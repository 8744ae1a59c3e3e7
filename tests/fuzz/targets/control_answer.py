"""The control socket: any request is answered or not, and any answer is an object or the documented error.

The first byte says whether the rest is what a client sends, or what a daemon answers.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from nbstream.server.control_socket import ControlListener, ask_daemon
from tests.fuzz.target import Choices, FuzzTarget

_FOLDER = tempfile.TemporaryDirectory(prefix="nbstream-fuzz-")
_SOCKET = "control.sock"


def _check(data: bytes) -> None:
    choices = Choices(data)
    asyncio.run(_ask(choices.rest) if choices.number(2) else _serve(choices.rest))


async def _serve(request: bytes) -> None:
    """Check the daemon's side."""
    loop = asyncio.get_running_loop()
    listener = ControlListener({"status": lambda send: send({"a": 1})}, loop.add_reader, loop.remove_reader)
    listener.start(Path(_FOLDER.name))
    try:
        reader, writer = await asyncio.open_unix_connection(Path(_FOLDER.name) / _SOCKET)
        writer.write(request)
        writer.write_eof()
        try:
            answer = await reader.read()
        except ConnectionError:  # it closes the connection with the rest of a long request unread
            answer = b""
        assert answer == (b'{"a": 1}\n' if request == b"status\n" else b"")
        writer.close()
    finally:
        listener.close()


async def _ask(answer: bytes) -> None:
    """Check the command's side."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(answer)
        writer.close()

    path = Path(_FOLDER.name) / _SOCKET
    path.unlink(missing_ok=True)
    async with await asyncio.start_unix_server(serve, path):
        try:
            result = await asyncio.to_thread(ask_daemon, Path(_FOLDER.name), "status", 10.0)
        except OSError:
            return
    assert isinstance(result, dict)
    assert answer.split(b"\n")[0].lstrip()[:1] == b"{"


TARGET = FuzzTarget(
    _check,
    (
        b"\0status\n",
        b"\0status",
        b"\0" + b"x" * 100 + b"\nstatus\n",
        b'\1{"loaded": true, "problems": []}\n',
        b"\1[1]\n",
        b"\1{\n",
        b"\1\xff\n",
        b"\1" + b"[" * 3000 + b"\n",
        b"\1",
    ),
    words=(b"status\n", b"\n", b"{}", b'":', b"null", b"NaN"),
    mutations=100,
)
