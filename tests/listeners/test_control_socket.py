"""The control door: an answer of one's own, for the daemon's user only."""

from __future__ import annotations

import asyncio
import socket
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from nbstream.listeners.control_socket import ControlListener, ask_daemon
from tests.waiting import until


class Desk:
    """What the door is for."""

    def __init__(self) -> None:
        self.asked = 0
        self.open = asyncio.Event()
        self.open.set()

    async def answer(self) -> dict[str, object]:
        self.asked += 1
        await self.open.wait()
        return {"asked": self.asked}


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
async def door(desk: Desk, tmp_path: Path) -> AsyncIterator[ControlListener]:
    listener = ControlListener({"count": desk.answer})
    await listener.start(tmp_path)
    yield listener
    await listener.close()


async def count(folder: Path) -> object:
    return (await asyncio.to_thread(ask_daemon, folder, "count", 20.0))["asked"]


async def test_each_request_has_its_own_answer(door: ControlListener, tmp_path: Path) -> None:
    assert sorted(await asyncio.gather(*(count(tmp_path) for _ in range(4)))) == [1, 2, 3, 4]  # type: ignore[type-var]


async def test_only_the_owner_can_connect(door: ControlListener, tmp_path: Path) -> None:
    assert stat.S_IMODE((tmp_path / "control.sock").stat().st_mode) == 0o600


@pytest.mark.parametrize("word", ["other", "count more", "x" * 5000])
async def test_an_unknown_word_gets_no_answer(
    door: ControlListener, desk: Desk, tmp_path: Path, word: str
) -> None:
    with pytest.raises(OSError, match=r"without an answer|reset|Broken pipe"):
        await asyncio.to_thread(ask_daemon, tmp_path, word, 20.0)

    assert await count(tmp_path) == 1


async def test_who_is_silent_or_goes_away_hinders_nobody(
    door: ControlListener, desk: Desk, tmp_path: Path
) -> None:
    with socket.socket(socket.AF_UNIX) as silent, socket.socket(socket.AF_UNIX) as gone:
        silent.connect(str(tmp_path / "control.sock"))
        gone.connect(str(tmp_path / "control.sock"))
        gone.send(b"count\n")
        gone.close()
        await until(lambda: desk.asked == 1)

        assert await count(tmp_path) == 2

        await door.close()
        assert await asyncio.to_thread(silent.recv, 1) == b""


async def test_who_waits_when_the_door_closes_is_not_told_anything(
    door: ControlListener, desk: Desk, tmp_path: Path
) -> None:
    desk.open.clear()
    waiting = asyncio.create_task(count(tmp_path))
    await until(lambda: desk.asked == 1)

    await door.close()

    with pytest.raises(ConnectionResetError, match="without an answer"):
        await waiting
    assert not (tmp_path / "control.sock").exists()


async def test_one_connection_too_many_is_closed(door: ControlListener, desk: Desk, tmp_path: Path) -> None:
    desk.open.clear()
    waiting = [asyncio.create_task(count(tmp_path)) for _ in range(4)]
    sockets = [socket.socket(socket.AF_UNIX) for _ in range(12)]
    try:
        for each in sockets:
            each.connect(str(tmp_path / "control.sock"))
            each.send(b"count\n")
        await until(lambda: desk.asked == 16)
        with pytest.raises(OSError, match=r"without an answer|reset|Broken pipe"):
            await asyncio.to_thread(ask_daemon, tmp_path, "count", 20.0)
        desk.open.set()
        assert len(await asyncio.gather(*waiting)) == 4
    finally:
        for each in sockets:
            each.close()


async def test_what_a_killed_daemon_left_is_replaced(desk: Desk, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(tmp_path / "control.sock"))
    with pytest.raises(ConnectionRefusedError):
        await count(tmp_path)
    listener = ControlListener({"count": desk.answer})

    await listener.start(tmp_path)

    assert await count(tmp_path) == 1
    await listener.close()


async def test_the_name_of_the_folder_may_be_longer_than_a_socket_s(desk: Desk, tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 30)
    folder.mkdir()
    listener = ControlListener({"count": desk.answer})

    await listener.start(folder)

    assert await count(folder) == 1
    await listener.close()


async def test_no_file_stays_open(door: ControlListener, tmp_path: Path) -> None:
    await count(tmp_path)
    before = len(list(Path("/proc/self/fd").iterdir()))

    for _ in range(5):
        await count(tmp_path)

    await until(lambda: len(list(Path("/proc/self/fd").iterdir())) <= before)


async def test_without_a_daemon_nobody_answers(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        await count(tmp_path)
