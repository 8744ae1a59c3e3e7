"""``deploy/pipe/nbstream-filter``: its functions, and the script as a program beside a daemon of any kind."""

from __future__ import annotations

import itertools
import runpy
import socket
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.harness.postfix import DEPLOY
from tests.harness.waiting import DEADLINE_SECONDS

PIECES = DEPLOY / "pipe"
SCRIPT = PIECES / "nbstream-filter"


def functions() -> Any:
    """The script's functions, without its start."""
    return SimpleNamespace(**runpy.run_path(str(SCRIPT), run_name="nbstream_filter"))


def run(message: bytes, path: Path, *options: str, **more: Any) -> subprocess.CompletedProcess[bytes]:
    """Run the script on a message to its end, with the socket at ``path``."""
    words: list[str | Path] = [SCRIPT, "--socket", path, *options]
    return subprocess.run(words, input=message, capture_output=True, timeout=DEADLINE_SECONDS, check=False, **more)


@contextmanager
def daemon_that_answers(folder: Path, *answers: bytes, reads: bool = True) -> Iterator[Path]:
    """Give the socket of a daemon that reads each request, or only sees that one comes, answers, and closes.

    Each connection gets the next of ``answers``, and all later ones get the last.
    """
    path = folder / "answering.sock"
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        thread = threading.Thread(target=_serve, args=(listening, answers, reads))
        thread.start()
        try:
            yield path
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join(DEADLINE_SECONDS)


def _serve(listening: socket.socket, answers: Sequence[bytes], reads: bool) -> None:
    for answer in (*answers[:-1], *itertools.repeat(answers[-1], 100)):
        try:
            connection, _ = listening.accept()
        except OSError:  # shut down
            return
        with connection:
            if reads:
                _read_request(connection)
            else:
                connection.recv(1, socket.MSG_PEEK)
            connection.sendall(answer)


def _read_request(connection: socket.socket) -> None:
    with connection.makefile("rb") as file:
        length = 0
        while (line := file.readline()) not in {b"\r\n", b""}:
            if line.startswith(b"Content-length: "):
                length = int(line.split()[1])
        while length > 0:
            length -= len(file.read(min(length, 1 << 20)))
