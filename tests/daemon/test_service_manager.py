"""What the service manager is told, with a datagram socket as its side."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from nbstream.daemon.service_manager import ServiceManager
from nbstream.server.background import BackgroundTasks
from tests.harness.waiting import DEADLINE_SECONDS, until


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "notify")


@pytest.fixture
def manager(path: str) -> Iterator[socket.socket]:
    with bound(path) as listening:
        yield listening


def bound(address: str) -> socket.socket:
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    listening.settimeout(DEADLINE_SECONDS)
    listening.bind(address)
    return listening


def received(manager: socket.socket) -> list[str]:
    """Return the lines of the next datagram."""
    return manager.recv(4096).decode().split("\n")


def waiting(manager: socket.socket) -> list[str]:
    """Return the datagrams that were sent so far."""
    manager.setblocking(False)
    datagrams = []
    try:
        while True:
            datagrams.append(manager.recv(4096).decode())
    except BlockingIOError:
        manager.settimeout(DEADLINE_SECONDS)
        return datagrams


@asynccontextmanager
async def watched(told: ServiceManager, status: Callable[[], str]) -> AsyncIterator[None]:
    background = BackgroundTasks(lambda _name, _failures: None)
    told.watch(background, status, lambda: True)
    try:
        yield
    finally:
        await background.stop()


def test_it_is_told_what_the_daemon_does(manager: socket.socket, path: str) -> None:
    told = ServiceManager(path)

    told.ready("accepts mail")
    assert received(manager) == ["READY=1", "STATUS=accepts mail"]
    told.stopping()
    assert received(manager) == ["STOPPING=1", "STATUS=draining"]


@pytest.mark.parametrize(
    "variables", [{"WATCHDOG_USEC": "30000", "WATCHDOG_PID": "1"}, {"WATCHDOG_USEC": "soon"}, {}]
)
async def test_a_watchdog_over_another_process_gets_nothing(
    manager: socket.socket, path: str, variables: dict[str, str]
) -> None:
    told = ServiceManager.from_environment({"NOTIFY_SOCKET": path, **variables})

    async with watched(told, lambda: "accepts mail"):
        told.ready("accepts mail")
        await asyncio.sleep(0)

    assert set(waiting(manager)) == {"READY=1\nSTATUS=accepts mail"}


async def test_the_watchdog_gets_signs_of_life_only_while_the_daemon_lives(
    manager: socket.socket, path: str
) -> None:
    told = ServiceManager(path, 30)

    told.tell_again("", lives=False)
    assert waiting(manager) == []

    told.tell_again("", lives=True)
    assert waiting(manager) == ["WATCHDOG=1"]


@pytest.fixture
def short_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nbstream.daemon.service_manager._LONGEST_ROUND_SECONDS", 0.01)


@pytest.mark.usefixtures("short_rounds")
async def test_one_that_does_not_read_holds_up_nothing_and_learns_the_state_later(
    manager: socket.socket, path: str
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        other.setblocking(False)
        with suppress(BlockingIOError):
            while True:
                other.sendto(b"FULL=1", path)
    told = ServiceManager(path)
    async with watched(told, lambda: "accepts mail"):
        told.ready("accepts mail")
        told.stopping()
        assert set(waiting(manager)) == {"FULL=1"}

        await until(lambda: set(waiting(manager)) == {"STOPPING=1\nSTATUS=draining"})


async def test_without_a_service_manager_nothing_happens(caplog: pytest.LogCaptureFixture) -> None:
    told = ServiceManager.from_environment({})

    told.ready("accepts mail")
    async with watched(told, str):
        await asyncio.sleep(0)
    told.stopping()

    assert caplog.records == []
