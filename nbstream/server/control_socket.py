"""The control socket: a unix socket in the state folder, over which commands send requests to the daemon.

Rules: only the daemon's user (and root) can connect. A request is one word and a line end, an answer is one JSON
object and a line end. The answer belongs to the request, and a command need not guess what the daemon did. A
request is carried out even if its client has disconnected.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from nbstream.server.connections import Connections, StreamConnection

if TYPE_CHECKING:
    from pathlib import Path

_SOCKET_NAME = "control.sock"
_MAX_CONNECTIONS = 16
_MAX_WORD_BYTES = 64
_MAX_ANSWER_BYTES = 1 << 20
_PEER_SECONDS = 5.0  # to send the word, and to read the answer

ControlAnswer: TypeAlias = Mapping[str, object]


class ControlListener:
    """Answers each word with the function of that name; an unknown word gets no answer."""

    def __init__(self, handlers: Mapping[str, Callable[[], Awaitable[ControlAnswer]]]) -> None:
        self._handlers = handlers
        self._connections = Connections("control", _MAX_CONNECTIONS)
        self._path: Path | None = None

    async def start(self, state_dir: Path) -> None:
        """Listen; the caller must hold the daemon's lock on ``state_dir``. Raises ``OSError``."""
        self._path = state_dir / _SOCKET_NAME
        self._path.unlink(missing_ok=True)  # the socket of a killed daemon
        listening = socket.socket(socket.AF_UNIX)
        try:
            with _short_socket_path(state_dir) as name:
                listening.bind(name)
            self._path.chmod(0o600)  # nobody can connect yet, because nothing listens
            make = partial(_ControlConnection, self._handlers)
            await self._connections.listen_with_streams([listening], make, _MAX_WORD_BYTES)
        except BaseException:
            listening.close()
            raise

    async def close(self) -> None:
        """Stop listening; clients that still wait get no answer."""
        if self._path is None:
            return
        self._path.unlink(missing_ok=True)
        self._connections.stop()
        await self._connections.abort()


class _ControlConnection(StreamConnection):
    """The connection of one command, with one request."""

    def __init__(
        self,
        handlers: Mapping[str, Callable[[], Awaitable[ControlAnswer]]],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        super().__init__(reader, writer)
        self._handlers = handlers

    async def serve(self) -> None:
        """Answer the request."""
        try:
            # A line that is too long is a ValueError.
            with contextlib.suppress(OSError, TimeoutError, ValueError):
                await self._answer()
        finally:
            self.writer.transport.abort()  # a close would wait for a client that does not take its answer

    async def _answer(self) -> None:
        async with asyncio.timeout(_PEER_SECONDS):
            word = await self.reader.readline()
        answer = self._handlers.get(word.decode("ascii", "replace").rstrip("\n"))
        if answer is None:
            return
        self.writer.write(json.dumps(await answer()).encode() + b"\n")
        self.writer.close()
        async with asyncio.timeout(_PEER_SECONDS):
            await self.writer.wait_closed()


def ask_daemon(state_dir: Path, word: str, seconds: float) -> dict[str, Any]:
    """Return the answer of the daemon on ``state_dir`` to ``word``.

    Raises ``OSError`` where no daemon answers within about ``seconds``.
    """
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(seconds)
        with _short_socket_path(state_dir) as name:
            connection.connect(name)
        connection.sendall(word.encode("ascii") + b"\n")
        with connection.makefile("rb") as lines:
            line = lines.readline(_MAX_ANSWER_BYTES)
    if not line.endswith(b"\n"):
        raise ConnectionResetError("the daemon closed the connection without an answer")
    try:
        answer = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ConnectionAbortedError("the daemon gave an answer that cannot be read") from error
    if not isinstance(answer, dict):
        raise ConnectionAbortedError("the daemon gave an answer of another form")
    return answer


@contextlib.contextmanager
def _short_socket_path(state_dir: Path) -> Iterator[str]:
    """Yield a path of the socket within the 107 bytes of unix(7), even where the folder has a longer path."""
    folder = os.open(state_dir, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{_SOCKET_NAME}"
    finally:
        os.close(folder)
