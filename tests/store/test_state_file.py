"""The state file on a real disk: what was answered is there, whatever ends, and what cannot be used is said."""

from __future__ import annotations

import asyncio
import os
import random
import resource
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from multiprocessing import get_context
from pathlib import Path

import pytest

from nbstream.store import state_file
from nbstream.store.state_file import NAME, StateFile
from tests.harness.waiting import DEADLINE_SECONDS


def insert(content: bytes) -> Callable[[sqlite3.Connection], int | None]:
    """A change: the content of one message."""
    return lambda database: (
        database.execute("INSERT INTO spooled_content (content) VALUES (?)", (content,)).lastrowid
    )


def contents(folder: Path) -> list[bytes]:
    return [content for (content,) in StateFile(folder).read("SELECT content FROM spooled_content ORDER BY id")]


@pytest.fixture
def state(tmp_path: Path) -> Iterator[StateFile]:
    with closing(StateFile(tmp_path / "state")) as state:
        yield state


def test_what_was_answered_is_read_by_another_process(state: StateFile) -> None:
    assert state.read("SELECT * FROM spooled_content") == []
    assert not state.path.exists()

    assert state.write(insert(b"one")) == 1

    assert contents(state.path.parent) == [b"one"]


def test_file_and_folder_are_open_to_their_owner_alone(state: StateFile) -> None:
    state.write(insert(b"one"))

    assert [path.name for path in state.path.parent.iterdir()] == [NAME]
    for path in (state.path.parent, *state.path.parent.iterdir()):
        assert not stat.S_IMODE(path.stat().st_mode) & 0o077, path


@pytest.mark.parametrize("link", [os.symlink, os.link, None])
def test_root_uses_no_file_in_the_folder_of_another_user(
    tmp_path: Path, link: Callable[[Path, Path], None] | None
) -> None:
    """What that user links there, at whatever moment, is neither read nor written."""
    if os.geteuid() != 0:
        pytest.skip("only root may use the files of others")
    (tmp_path / "other").touch()
    folder = tmp_path / "state"
    folder.mkdir()
    if link:
        link(tmp_path / "other", folder / NAME)
    os.chown(folder, 12345, 12345)
    before = list(folder.iterdir())
    with closing(StateFile(folder)) as state:
        with pytest.raises(PermissionError, match="belongs to 12345: run this as that user"):
            state.write(insert(b"one"))
        if link:
            with pytest.raises(PermissionError, match="belongs to 12345"):
                state.read("SELECT 1")

    assert (list(folder.iterdir()), (tmp_path / "other").read_bytes()) == (before, b"")


def test_nothing_is_written_where_a_link_leads(tmp_path: Path) -> None:
    other = tmp_path / "other"
    with closing(sqlite3.connect(other)) as database:
        database.execute("CREATE TABLE a (b)")
    before = other.read_bytes()
    (tmp_path / NAME).symlink_to(other)
    with closing(StateFile(tmp_path)) as state, pytest.raises(OSError, match="it is no file"):
        state.write(insert(b"one"))

    assert other.read_bytes() == before


def _make_and_insert(folder: Path, number: int) -> None:
    with closing(StateFile(folder)) as state:
        for _ in range(5):
            state.write(insert(b"%d" % number))


def test_processes_that_make_the_file_at_once_share_it(tmp_path: Path) -> None:
    processes = [get_context("fork").Process(target=_make_and_insert, args=(tmp_path, n)) for n in range(8)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()

    assert sorted(contents(tmp_path)) == sorted(b"%d" % number for number in range(8) for _ in range(5))


_WRITER = """
import sys
from pathlib import Path
from nbstream.store.state_file import StateFile
state, number = StateFile(Path(sys.argv[1])), int(sys.argv[2])
while True:
    state.write(lambda db: db.execute("INSERT INTO spooled_content (content) VALUES (?)", (b"%d" % number,)))
    print(number, flush=True)
    number += 1
"""


def test_a_process_that_is_killed_in_the_middle_loses_nothing_that_it_was_told(tmp_path: Path) -> None:
    draw, first = random.Random(7), 0
    for _ in range(5):
        command = [sys.executable, "-c", _WRITER, str(tmp_path), str(first)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            told = [int(process.stdout.readline()) for _ in range(draw.randint(1, 20))]
            process.send_signal(signal.SIGKILL)
            told += map(int, process.stdout.read().split())

        written = list(map(int, contents(tmp_path)))
        assert written[-1] in (told[-1], told[-1] + 1)
        assert written == list(range(written[-1] + 1))  # each once, and in their order
        first = written[-1] + 1


def test_a_full_disk_refuses_loses_nothing_and_takes_again(small_disk: Path) -> None:
    with closing(StateFile(small_disk)) as state:
        state.write(insert(b"first"))
        filler, kept = small_disk / "filler", [b"first"]
        with suppress(OSError), filler.open("wb", buffering=0) as file:
            while file.write(b"x" * 4096):
                pass
        with pytest.raises(OSError, match="full"):  # noqa: PT012 - the log beside the file has some room
            while True:
                content = b"%d " % len(kept) * 3000
                state.write(insert(content))
                kept.append(content)
        assert contents(small_disk) == kept

        filler.unlink()
        state.write(insert(b"last"))
        assert contents(small_disk) == [*kept, b"last"]


def test_a_write_that_fails_in_the_middle_leaves_nothing(state: StateFile) -> None:
    state.write(insert(b"one"))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 17, hard))
    try:
        with pytest.raises(OSError, match="I/O"):
            state.write(insert(b"x" * (1 << 18)))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    state.write(insert(b"two"))

    assert contents(state.path.parent) == [b"one", b"two"]


@pytest.mark.parametrize("damage", ["text", "pages", "schema"])
def test_a_damaged_file_says_what_to_do_and_keeps_what_it_has(state: StateFile, damage: str) -> None:
    state.write(insert(b"x" * 100_000))
    state.close()
    content = state.path.read_bytes()
    damaged = {
        "text": b"this is no database\n" * 1000,
        "pages": content[:4096] + b"\xff" * (len(content) - 4096),
        "schema": content[:100] + b"\xff" * 3996 + content[4096:],
    }[damage]
    state.path.write_bytes(damaged)

    with closing(StateFile(state.path.parent)) as again:
        with pytest.raises(OSError, match=r"damaged .*: stop nbstream, move it away, and start nbstream again"):
            again.write(insert(b"two"))
        with pytest.raises(OSError, match="is damaged"):
            again.read("SELECT content FROM spooled_content")
        assert state.path.read_bytes() == damaged

        state.path.rename(state.path.with_suffix(".damaged"))
        assert again.write(insert(b"two")) == 1


@pytest.mark.parametrize("pragma", ["application_id = 7", "user_version = 2"])
def test_a_file_of_another_program_or_version_is_not_touched(state: StateFile, pragma: str) -> None:
    state.write(insert(b"one"))
    state.close()
    with closing(sqlite3.connect(state.path)) as database:
        database.execute(f"PRAGMA {pragma}")
    before = state.path.read_bytes()

    with closing(StateFile(state.path.parent)) as again, pytest.raises(OSError, match="another version"):
        again.write(insert(b"two"))
    assert state.path.read_bytes() == before


@pytest.mark.parametrize("way", ["removed", "moved"])
def test_a_file_that_goes_away_meanwhile_is_followed_by_a_new_one(
    state: StateFile, tmp_path: Path, way: str
) -> None:
    state.write(insert(b"one"))
    for path in list(state.path.parent.iterdir()):
        path.unlink() if way == "removed" else path.rename(tmp_path / path.name)

    state.write(insert(b"two"))

    assert contents(state.path.parent) == [b"two"]
    if way == "moved":
        assert contents(tmp_path) == [b"one"]


# A disk that hangs


async def test_who_stops_waiting_leaves_no_change_behind(state: StateFile) -> None:
    state.write(insert(b"one"))
    begun, released = threading.Event(), threading.Event()

    def hang(database: sqlite3.Connection) -> None:
        begun.set()
        released.wait()

    hanging = asyncio.create_task(state.write_soon(hang))
    await asyncio.to_thread(begun.wait)
    second = asyncio.create_task(state.write_soon(insert(b"two")))
    third = asyncio.create_task(state.write_soon(insert(b"three")))
    await asyncio.sleep(0)
    second.cancel()
    with suppress(asyncio.CancelledError):
        await second
    assert len(state._waiting) == 1
    released.set()
    await asyncio.gather(hanging, third)

    assert contents(state.path.parent) == [b"one", b"three"]


async def test_a_disk_that_hangs_does_not_hold_up_the_end(
    state: StateFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_file, "_CLOSE_SECONDS", 0.01)
    begun, released = threading.Event(), threading.Event()

    def hang(database: sqlite3.Connection) -> None:
        begun.set()
        released.wait()

    hanging = asyncio.create_task(state.write_soon(hang))
    await asyncio.to_thread(begun.wait)
    waiting = asyncio.create_task(state.write_soon(insert(b"one")))
    await asyncio.sleep(0)
    async with asyncio.timeout(DEADLINE_SECONDS):
        await asyncio.to_thread(state.close)
        with pytest.raises(asyncio.CancelledError):
            await waiting
    released.set()
    await hanging
