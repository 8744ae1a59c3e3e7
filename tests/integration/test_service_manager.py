"""The daemon under a service manager such as systemd: a datagram socket stands for it."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.harness.daemon import DEADLINE_SECONDS, DaemonProcess, free_port, gone, wait_until
from tests.integration.workers import Site

WATCHDOG_SECONDS = 0.3


class Manager:
    """The service manager's side of the socket."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))
        self.words = ("env", f"NOTIFY_SOCKET={path}", f"WATCHDOG_USEC={WATCHDOG_SECONDS * 1_000_000:.0f}")
        """What starts a daemon under this service manager."""

    def close(self) -> None:
        self._socket.close()

    def next(self, seconds: float = DEADLINE_SECONDS) -> str:
        """Return the first line of the next datagram; raises ``TimeoutError``."""
        self._socket.settimeout(seconds)
        return self._socket.recv(4096).decode().partition("\n")[0]

    def next_state(self) -> str:
        """Return the first line of the next datagram that is no sign of life."""
        while (line := self.next()) == "WATCHDOG=1":
            pass
        return line

    def is_silent(self) -> bool:
        """Return whether signs of life stay away for as long as systemd would wait, after those on the way."""
        self._socket.setblocking(False)
        try:
            while True:
                self._socket.recv(4096)
        except BlockingIOError:
            pass
        try:
            self.next(WATCHDOG_SECONDS)
        except TimeoutError:
            return True
        return False


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    manager = Manager(tmp_path / "notify")
    yield manager
    manager.close()


@pytest.fixture
def site(tmp_path: Path, redis_binary: Path) -> Site:  # the daemon starts the server itself
    return Site(tmp_path)


def variables(pid: int) -> set[str]:
    """Return the names of the variables that a process was started with."""
    return {entry.partition("=")[0] for entry in Path(f"/proc/{pid}/environ").read_text().split("\0")}


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.soak)])
def test_it_hears_of_each_step_in_its_time(site: Site, manager: Manager, workers: int) -> None:
    port = free_port()
    site.write(listeners=f"smtp: {{listen: '127.0.0.1:{port}'}}, http: null", workers=workers)
    with ExitStack() as stack:
        daemon = DaemonProcess(site.file, *manager.words)
        stack.callback(daemon.kill)
        assert manager.next_state() == "READY=1"
        socket.create_connection(("127.0.0.1", port), DEADLINE_SECONDS).close()
        server = int((site.state / "redis.server").read_text())
        assert all("NOTIFY_SOCKET" not in variables(pid) for pid in [server, *site.pids()])

        assert daemon.stop() == 0
        while (state := manager.next_state()) == "READY=1":
            pass
        assert state == "STOPPING=1"
    wait_until(lambda: gone(server))


def test_a_daemon_whose_loop_stands_gives_no_sign_of_life(site: Site, manager: Manager) -> None:
    site.write(workers=1)
    with DaemonProcess(site.file, *manager.words) as daemon:
        assert manager.next_state() == "READY=1"
        assert manager.next() == "WATCHDOG=1"

        daemon.process.send_signal(signal.SIGSTOP)
        wait_until(manager.is_silent)
        daemon.process.send_signal(signal.SIGCONT)

        assert manager.next() == "WATCHDOG=1"


@pytest.mark.soak
def test_without_any_worker_there_is_no_sign_of_life(site: Site, manager: Manager) -> None:
    with DaemonProcess(site.file, *manager.words):
        assert manager.next_state() == "READY=1"
        assert manager.next() == "WATCHDOG=1"

        for pid in site.pids():
            os.kill(pid, signal.SIGKILL)
        wait_until(manager.is_silent)

        assert "WATCHDOG=1" in {
            manager.next(),
            manager.next(),
        }  # replaced; the state may be told first
