"""The control socket: a unix socket in the state folder, over which commands send requests to the daemon.

Rules: only the daemon's user (and root) can connect. A request is one word and a line end in one piece, an answer
is one JSON object and a line end. The answer belongs to the request, and a command need not guess what the daemon
did. A request is carried out even if its client has disconnected. The daemon waits for no client: who says nothing
is dropped when many more come, and an answer that its client does not take is cut off.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from pathlib import Path

_SOCKET_NAME = "control.sock"
_MAX_CONNECTIONS = 16
_MAX_WORD_BYTES = 64
_MAX_ANSWER_BYTES = 1 << 20

SendAnswer: TypeAlias = Callable[[Mapping[str, object]], None]


class ControlListener:
    """Calls the handler of each word with what sends its answer; an unknown word gets no answer.

    It never blocks: ``add_reader`` has a function called whenever a socket can be read, until ``remove_reader``.
    """

    def __init__(
        self,
        handlers: Mapping[str, Callable[[SendAnswer], object]],
        add_reader: Callable[[socket.socket, Callable[[], object]], object],
        remove_reader: Callable[[socket.socket], object],
    ) -> None:
        self._handlers = handlers
        self._add_reader = add_reader
        self._remove_reader = remove_reader
        self._path: Path | None = None
        self._sockets: list[socket.socket] = []  # the listening one, and those of clients, the oldest first

    def start(self, state_dir: Path) -> None:
        """Listen; the caller must hold the daemon's lock on ``state_dir``. Raises ``OSError``."""
        self._path = state_dir / _SOCKET_NAME
        self._path.unlink(missing_ok=True)  # the socket of a killed daemon
        listening = socket.socket(socket.AF_UNIX)
        self._sockets.append(listening)
        with _short_socket_path(state_dir) as name:
            listening.bind(name)
        self._path.chmod(0o600)  # nobody can connect yet, because nothing listens
        listening.setblocking(False)
        listening.listen(_MAX_CONNECTIONS)
        self._add_reader(listening, partial(self._accept, listening))

    def close(self) -> None:
        """Stop listening; clients that still wait get no answer."""
        if self._path:
            self._path.unlink(missing_ok=True)
        while self._sockets:
            self._drop(self._sockets[0])

    def _accept(self, listening: socket.socket) -> None:
        try:
            client, _ = listening.accept()
        except OSError:  # the client has gone, or there are too many open files
            return
        client.setblocking(False)
        if len(self._sockets) > _MAX_CONNECTIONS:
            self._drop(self._sockets[1])
        self._sockets.append(client)
        self._add_reader(client, partial(self._read, client))

    def _read(self, client: socket.socket) -> None:
        self._remove_reader(client)
        word = b""
        with contextlib.suppress(OSError):
            word = client.recv(_MAX_WORD_BYTES)
        handler = self._handlers.get(word.decode("ascii", "replace").removesuffix("\n"))
        if handler is None or not word.endswith(b"\n"):
            self._drop(client)
        else:
            handler(partial(self._send, client))

    def _send(self, client: socket.socket, answer: Mapping[str, object]) -> None:
        with contextlib.suppress(OSError):
            client.sendall(json.dumps(answer).encode() + b"\n")
        self._drop(client)

    def _drop(self, dropped: socket.socket) -> None:
        if dropped in self._sockets:
            self._sockets.remove(dropped)
            self._remove_reader(dropped)
            dropped.close()


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
        raise ConnectionResetError("the daemon closed the connection without answering")
    try:
        answer = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ConnectionAbortedError("the daemon's answer cannot be read") from error
    if not isinstance(answer, dict):
        raise ConnectionAbortedError("the daemon's answer has an unknown form")
    return answer


@contextlib.contextmanager
def _short_socket_path(state_dir: Path) -> Iterator[str]:
    """Yield a path of the socket within the 107 bytes of unix(7), even where the folder has a longer path."""
    folder = os.open(state_dir, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{_SOCKET_NAME}"
    finally:
        os.close(folder)
