"""The control socket: each request has its own answer, and only the daemon's user can connect."""

from __future__ import annotations

import asyncio
import select
import socket
import stat
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from nbstream.server.control_socket import ControlListener, SendAnswer, ask_daemon
from tests.harness.waiting import until


class RequestCounter:
    """Answers requests with their number, at once or with ``answer_all``."""

    def __init__(self) -> None:
        self.requests = 0
        self.answers_at_once = True
        self._waiting: list[SendAnswer] = []

    def answer(self, send: SendAnswer) -> None:
        self.requests += 1
        self._waiting.append(send)
        if self.answers_at_once:
            self.answer_all()

    def answer_all(self) -> None:
        while self._waiting:
            self._waiting.pop()({"requests": self.requests})


def make_listener(answer: Callable[[SendAnswer], object]) -> ControlListener:
    loop = asyncio.get_running_loop()
    return ControlListener({"count": answer}, loop.add_reader, loop.remove_reader)


@pytest.fixture
def counter() -> RequestCounter:
    return RequestCounter()


@pytest.fixture
async def listener(counter: RequestCounter, tmp_path: Path) -> AsyncIterator[ControlListener]:
    running = make_listener(counter.answer)
    running.start(tmp_path)
    yield running
    running.close()


async def count(folder: Path) -> object:
    return (await asyncio.to_thread(ask_daemon, folder, "count", 20.0))["requests"]


async def test_each_request_has_its_own_answer(listener: ControlListener, tmp_path: Path) -> None:
    assert sorted(await asyncio.gather(*(count(tmp_path) for _ in range(4)))) == [1, 2, 3, 4]  # type: ignore[type-var]


async def test_only_the_owner_can_connect(listener: ControlListener, tmp_path: Path) -> None:
    assert stat.S_IMODE((tmp_path / "control.sock").stat().st_mode) == 0o600


@pytest.mark.parametrize("word", ["other", "count more", "x" * 5000])
async def test_an_unknown_word_gets_no_answer(
    listener: ControlListener, counter: RequestCounter, tmp_path: Path, word: str
) -> None:
    with pytest.raises(OSError, match=r"without answering|reset|Broken pipe"):
        await asyncio.to_thread(ask_daemon, tmp_path, word, 20.0)

    assert await count(tmp_path) == 1


@pytest.mark.parametrize(
    "answer", [b"{", b"\xff", b"[1]", b"[" * 100_000], ids=["cut", "binary", "list", "nested"]
)
async def test_an_answer_that_is_no_object_is_an_error_like_no_answer(tmp_path: Path, answer: bytes) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(answer + b"\n")
        writer.close()

    async with await asyncio.start_unix_server(serve, tmp_path / "control.sock"):
        with pytest.raises(OSError, match="the daemon's answer"):
            await asyncio.to_thread(ask_daemon, tmp_path, "count", 20.0)


async def test_a_silent_or_disconnected_client_does_not_block_others(
    listener: ControlListener, counter: RequestCounter, tmp_path: Path
) -> None:
    with socket.socket(socket.AF_UNIX) as silent, socket.socket(socket.AF_UNIX) as disconnected:
        silent.connect(str(tmp_path / "control.sock"))
        disconnected.connect(str(tmp_path / "control.sock"))
        disconnected.send(b"count\n")
        disconnected.close()
        await until(lambda: counter.requests == 1)

        assert await count(tmp_path) == 2

        listener.close()
        assert await asyncio.to_thread(silent.recv, 1) == b""


async def test_a_client_that_waits_while_the_listener_closes_gets_no_answer(
    listener: ControlListener, counter: RequestCounter, tmp_path: Path
) -> None:
    counter.answers_at_once = False
    waiting = asyncio.create_task(count(tmp_path))
    await until(lambda: counter.requests == 1)

    listener.close()

    with pytest.raises(ConnectionResetError, match="without answering"):
        await waiting
    assert not (tmp_path / "control.sock").exists()


@pytest.mark.parametrize("data", [b"coun", b"count\n"], ids=["half a word", "reads nothing"])
async def test_a_client_that_takes_no_part_is_disconnected(tmp_path: Path, data: bytes) -> None:
    listener = make_listener(lambda send: send({"large": "x" * (1 << 20)}))
    listener.start(tmp_path)
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(tmp_path / "control.sock"))
        client.send(data)
        poll = select.poll()
        poll.register(client, select.POLLHUP)

        await until(lambda: bool(poll.poll(0)))
    listener.close()


async def test_who_waits_for_the_longest_makes_room_for_one_too_many(
    listener: ControlListener, tmp_path: Path
) -> None:
    silent = [socket.socket(socket.AF_UNIX) for _ in range(16)]
    try:
        for connection in silent:
            connection.connect(str(tmp_path / "control.sock"))

        assert await count(tmp_path) == 1

        assert await asyncio.to_thread(silent[0].recv, 1) == b""
    finally:
        for connection in silent:
            connection.close()


async def test_the_socket_of_a_killed_daemon_is_replaced(counter: RequestCounter, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(tmp_path / "control.sock"))
    with pytest.raises(ConnectionRefusedError):
        await count(tmp_path)
    listener = make_listener(counter.answer)

    listener.start(tmp_path)

    assert await count(tmp_path) == 1
    listener.close()


async def test_the_path_of_the_folder_may_be_longer_than_a_socket_path(
    counter: RequestCounter, tmp_path: Path
) -> None:
    folder = tmp_path / ("long" * 30)
    folder.mkdir()
    listener = make_listener(counter.answer)

    listener.start(folder)

    assert await count(folder) == 1
    listener.close()


async def test_no_file_stays_open(listener: ControlListener, tmp_path: Path) -> None:
    await count(tmp_path)
    before = len(list(Path("/proc/self/fd").iterdir()))

    for _ in range(5):
        await count(tmp_path)

    await until(lambda: len(list(Path("/proc/self/fd").iterdir())) <= before)


async def test_without_a_daemon_nobody_answers(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        await count(tmp_path)
