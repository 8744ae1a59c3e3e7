"""The spool of one process on a disk that hangs, or fails in a way that nobody has thought of."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from nbstream.listeners.dovecot.spool import MessageSpool, SpoolReader
from nbstream.store.journal.writer import SEGMENT_BYTES, JournalWriter, Record
from tests.listeners.dovecot.spools import MAX_BYTES, message, read_all
from tests.waiting import DEADLINE_SECONDS


class HangingDisk:
    """Writes nothing until it is released."""

    def __init__(self) -> None:
        self.begun, self.released = threading.Event(), threading.Event()
        self._append = JournalWriter.append

    def append(self, writer: JournalWriter, records: Sequence[Record]) -> None:
        self.begun.set()
        self.released.wait()
        self._append(writer, records)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[HangingDisk]:
    disk = HangingDisk()

    def append(writer: JournalWriter, records: Sequence[Record]) -> None:
        disk.append(writer, records)

    monkeypatch.setattr(JournalWriter, "append", append)
    yield disk
    disk.released.set()


async def begin_to_add(spool: MessageSpool, disk: HangingDisk) -> asyncio.Task[None]:
    """Return the task that adds message 1, which the disk has begun to write."""
    adding = asyncio.create_task(spool.add(message(1)))
    await asyncio.to_thread(disk.begun.wait)
    return adding


async def test_who_stops_waiting_for_a_disk_that_hangs_leaves_no_message_behind(
    tmp_path: Path, disk: HangingDisk
) -> None:
    spool = MessageSpool(tmp_path, MAX_BYTES)
    first = await begin_to_add(spool, disk)
    second = asyncio.create_task(spool.add(message(2)))
    third = asyncio.create_task(spool.add(message(3)))
    await asyncio.sleep(0)
    second.cancel()
    with suppress(asyncio.CancelledError):
        await second
    disk.released.set()
    await asyncio.gather(first, third)
    await spool.close()

    assert read_all(SpoolReader(tmp_path)) == [message(1), message(3)]


async def test_a_disk_that_hangs_does_not_hold_up_the_end(tmp_path: Path, disk: HangingDisk) -> None:
    spool = MessageSpool(tmp_path, MAX_BYTES)
    adding = await begin_to_add(spool, disk)
    adding.cancel()
    async with asyncio.timeout(DEADLINE_SECONDS):
        await spool.close()

    assert not disk.released.is_set()


async def test_a_fault_reaches_those_who_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise MemoryError

    spool = MessageSpool(tmp_path, MAX_BYTES)
    monkeypatch.setattr(JournalWriter, "append", fail)
    with pytest.raises(MemoryError):
        async with asyncio.timeout(DEADLINE_SECONDS):
            await spool.add(message(1))
    monkeypatch.undo()
    await spool.add(message(2))
    await spool.close()

    assert read_all(SpoolReader(tmp_path)) == [message(2)]


async def test_many_large_messages_that_come_together_are_not_written_in_one_piece(
    tmp_path: Path, disk: HangingDisk
) -> None:
    large = [message(number, b"x" * (SEGMENT_BYTES // 2)) for number in range(2, 8)]
    spool = MessageSpool(tmp_path, 100 << 20)
    adding = [await begin_to_add(spool, disk), *(asyncio.create_task(spool.add(each)) for each in large)]
    await asyncio.sleep(0)
    disk.released.set()
    await asyncio.gather(*adding)
    await spool.close()

    assert max(path.stat().st_size for path in tmp_path.glob("*.messages")) < 2.5 * SEGMENT_BYTES
    assert read_all(SpoolReader(tmp_path)) == [message(1), *large]
