"""One real server on a unix socket."""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from pathlib import Path

from tests.harness.waiting import DEADLINE_SECONDS


class RedisServer:
    """A real server on a unix socket, without persistence; ``stop`` and ``start`` as tests need it."""

    def __init__(self, binary: Path, folder: Path) -> None:
        self.binary = binary
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self.socket = folder / "redis.sock"
        self.url = f"unix://{self.socket}"

    def start(self, *options: str) -> None:
        arguments = ["--port", "0", "--unixsocket", str(self.socket), "--dir", str(self._folder), "--save", ""]
        self._process = subprocess.Popen(
            [self.binary, *arguments, *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        until = time.monotonic() + DEADLINE_SECONDS
        while not self._listens():
            assert self._process.poll() is None, "the test's Redis did not start"
            assert time.monotonic() < until, "the test's Redis did not answer"
            time.sleep(0.01)

    def _listens(self) -> bool:
        # The file is there before the server listens on it, and may be left of a server that was killed.
        with socket.socket(socket.AF_UNIX) as connection:
            return connection.connect_ex(str(self.socket)) == 0

    def hang(self) -> None:
        """Answer nothing any more, but keep all connections."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Answer again, after ``hang``."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
            self.socket.unlink(missing_ok=True)
