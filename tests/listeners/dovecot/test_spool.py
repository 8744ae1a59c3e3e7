"""The spool on a real disk: what was acknowledged is read once, in its order, whenever a process dies."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path

import pytest

from nbstream.listeners.dovecot.spool import (
    FAILED,
    MAX_FAILED,
    Spool,
    SpoolBacklog,
    SpoolEntry,
    measure_backlog,
)
from tests.harness.spools import MAX_BYTES, add_all, message, open_spool, read_all


async def taken(spool: Spool) -> SpoolEntry:
    """The next entry; there is one."""
    entry = await spool.take()
    assert entry is not None
    return entry


async def test_messages_are_read_in_the_order_of_their_answers(tmp_path: Path) -> None:
    async with open_spool(tmp_path) as one, open_spool(tmp_path) as other:
        for number in range(30):
            await (one, other)[number % 2].add(message(number))

        assert await read_all(other) == [message(number) for number in range(30)]


async def test_a_full_spool_takes_nothing_until_there_is_room(tmp_path: Path) -> None:
    content = b"x" * 10_000
    async with open_spool(tmp_path, 200_000) as spool:
        count = 0
        with pytest.raises(OSError, match="the spool is full") as caught:  # noqa: PT012 - until it is
            while True:
                await spool.add(message(count, content))
                count += 1
        assert caught.value.errno == errno.ENOSPC
        assert 150_000 < count * len(content) < 200_000

        assert await read_all(spool) == [message(number, content) for number in range(count)]
        await spool.add(message(count, content))


async def test_a_message_that_has_no_room_costs_those_that_come_with_it_nothing(tmp_path: Path) -> None:
    async with open_spool(tmp_path) as spool:
        adding = [spool.add(message(1)), spool.add(message(2, b"x" * MAX_BYTES)), spool.add(message(3))]
        results = await asyncio.gather(*adding, return_exceptions=True)

        assert [type(result) for result in results] == [type(None), OSError, type(None)]
        assert await read_all(spool) == [message(1), message(3)]


async def test_the_backlog_says_how_much_waits_and_since_when(tmp_path: Path) -> None:
    assert measure_backlog(tmp_path) == SpoolBacklog()
    assert list(tmp_path.iterdir()) == []
    await add_all(tmp_path, [message(1), message(2), message(3)])
    async with open_spool(tmp_path) as spool:
        await spool.set_aside(await taken(spool))

        backlog = measure_backlog(tmp_path)
    assert backlog == SpoolBacklog(waiting=2, failed=1, oldest_since=message(2).received_at)
    assert backlog.oldest_seconds(message(2).received_at + 7) == 7


async def test_what_is_set_aside_is_a_file_that_can_be_learned(tmp_path: Path) -> None:
    await add_all(tmp_path, [message(1)])
    async with open_spool(tmp_path) as spool:
        await spool.set_aside(await taken(spool))

        (kept,) = (tmp_path / FAILED / "spam").iterdir()
        assert kept.read_bytes() == message(1).content
        assert await spool.take() is None


async def test_too_many_failed_messages_stop_the_spool_and_lose_nothing(tmp_path: Path) -> None:
    await add_all(tmp_path, [message(1)])
    failed = tmp_path / FAILED / "spam"
    failed.mkdir(parents=True)
    for number in range(MAX_FAILED):
        (failed / str(number)).touch()
    async with open_spool(tmp_path) as spool:
        with pytest.raises(OSError, match="look at them"):
            await spool.set_aside(await taken(spool))
        assert await read_all(spool) == [message(1)]


async def test_attempts_that_do_not_end_are_counted_and_others_are_not(tmp_path: Path) -> None:
    await add_all(tmp_path, [message(1)])
    for _ in range(2):  # two processes have died
        async with open_spool(tmp_path) as spool:
            await spool.take()

    async with open_spool(tmp_path) as spool:
        entry = await taken(spool)
        assert entry.tries == 2
        await spool.put_back(entry)
        assert (await taken(spool)).tries == 2
        assert (await taken(spool)).tries == 3


async def test_only_the_first_attempt_at_a_message_is_no_repetition(tmp_path: Path) -> None:
    await add_all(tmp_path, [message(1), message(2)])
    async with open_spool(tmp_path) as spool:
        entry = await taken(spool)
        assert not entry.was_tried
        await spool.put_back(entry)

    async with open_spool(tmp_path) as spool:
        entry = await taken(spool)
        assert entry.was_tried
        await spool.finish(entry)
        assert not (await taken(spool)).was_tried
