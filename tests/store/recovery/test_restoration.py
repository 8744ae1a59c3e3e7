"""What one server acknowledged and a failover lost is noticed, taught again once, and exact."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from nbstream.filter import Filter
from nbstream.store.journal.writer import JournalWriter
from nbstream.store.model.commit import ReplicaWaitOptions
from nbstream.store.model.history import HistoryRecord
from nbstream.store.model.lesson_journal import lesson_files
from nbstream.store.model.model import Model
from nbstream.store.recovery.lesson_restorer import LessonRestorer
from nbstream.store.recovery.missing_lessons import LessonFate
from tests.conftest import RedisServer
from tests.store.acknowledged_lessons import lesson_segments
from tests.store.algebra import (
    equals_redis_exactly,
    live_entries,
    prequential_scores,
    prequential_scores_of_entries,
    stored,
    summed,
)
from tests.store.proxy import LosesOneReply, Proxy
from tests.store.recovery.hosts import Host, host_at, restoring
from tests.store.replicas import Pair, replicated
from tests.store.writers import LETTERS, filter_of
from tests.waiting import until


@dataclass(frozen=True)
class Split:
    """A host that reaches the primary through a proxy, and a replica that a test promotes."""

    pair: Pair
    proxy: Proxy
    host: Host

    @property
    def promoted(self) -> Model:
        """The model at the promoted replica."""
        return Model(self.pair.at_replica, "test", 3600)

    @property
    def promoted_filter(self) -> Filter:
        """A filter of another host, which has noticed the failover at once."""
        return filter_of(self.pair.at_replica)

    async def promote(self) -> None:
        """Promote the replica, with everything that the primary has acknowledged until now."""
        await self.pair.at_primary.wait(1, 5000)
        await self.pair.promote()

    async def switch(self) -> None:
        """Lead the host to the promoted replica, and wait until its mirror has loaded the counts there."""
        self.proxy.target = self.pair.replica.socket
        self.proxy.cut()
        await self.host.follow_other_server()


@pytest.fixture
async def split(own_redis: RedisServer, tmp_path: Path) -> AsyncIterator[Split]:
    async with split_of(own_redis, tmp_path) as split:
        yield split


@asynccontextmanager
async def split_of(primary: RedisServer, folder: Path) -> AsyncIterator[Split]:
    async with (
        replicated(primary, folder / "replica") as pair,
        Proxy(primary.socket, folder / "proxy") as proxy,
        host_at(proxy.url, folder / "state") as host,
    ):
        await teach(host.spam_filter, range(100, 105), "ham")
        yield Split(pair, proxy, host)


async def teach(spam_filter: Filter, numbers: range, label: str) -> None:
    for number in numbers:
        await spam_filter.learn(LETTERS[number], label, "http", "anna")


async def labels(model: Model) -> dict[str, str]:
    return {key: entry.label for key, entry in (await live_entries(model)).items()}


async def records(model: Model, number: int) -> list[HistoryRecord]:
    """The history of one letter, oldest first."""
    key = LETTERS[number].key
    return [record async for record in model.history.records() if record.message_key == key][::-1]


async def assert_exact(model: Model) -> None:
    assert await stored(model) == await summed(model)
    assert await prequential_scores(model) == await prequential_scores_of_entries(model)


async def test_7_lessons_of_the_old_primary_are_taught_to_the_promoted_that_has_12_others(split: Split) -> None:
    await split.promote()
    await teach(split.host.spam_filter, range(7), "spam")
    await teach(split.promoted_filter, range(20, 32), "ham")
    await split.switch()

    assert await split.host.restorer.restore_missing() == 7

    expected = {LETTERS[n].key: "spam" for n in range(7)}
    expected |= {LETTERS[n].key: "ham" for n in (*range(20, 32), *range(100, 105))}
    assert await labels(split.promoted) == expected
    assert split.host.losses.findings == {LessonFate.MISSING: 7}
    assert (split.host.losses.restored, split.host.losses.changes) == (7, 7)
    await assert_exact(split.promoted)
    await until(lambda: equals_redis_exactly(split.host.mirror, split.promoted))


async def test_a_restored_lesson_is_the_one_that_was_acknowledged(split: Split) -> None:
    await split.promote()
    await teach(split.host.spam_filter, range(1), "spam")
    lost_entry = (await live_entries(split.host.model))[LETTERS[0].key]
    lost = (await records(split.host.model, 0))[0]
    await split.switch()
    await split.host.restorer.restore_missing()

    entry = (await live_entries(split.promoted))[LETTERS[0].key]
    (record,) = await records(split.promoted, 0)

    assert {**entry.pack(), "change": b""} == {**lost_entry.pack(), "change": b""}
    assert (record.note.source, record.note.actor) == ("http", "anna")
    assert (record.note.before, record.note.after) == (lost.note.before, lost.note.after)
    assert record.note.repeats == lost_entry.change


async def test_nothing_is_taught_again_where_nothing_is_missing(split: Split) -> None:
    await teach(split.host.spam_filter, range(7), "spam")
    await split.host.spam_filter.learn(LETTERS[3], "ham", "http")
    await split.host.spam_filter.unlearn(LETTERS[4], "http")
    await split.promote()
    await split.switch()
    before = await split.promoted.position()

    assert await split.host.restorer.restore_missing() == 0

    assert await split.promoted.position() == before
    assert (split.host.losses.findings, split.host.losses.changes) == ({}, 0)


async def test_a_restored_lesson_is_restored_once_however_often_that_is_tried(split: Split) -> None:
    await split.promote()
    await teach(split.host.spam_filter, range(3), "spam")
    await split.switch()
    await split.host.restorer.restore_missing()
    before = await split.promoted.position()

    async with host_at(split.proxy.url, split.host.journal.folder.parent) as restarted:
        assert await restarted.restorer.restore_missing() == 0

    assert await split.promoted.position() == before


async def test_hosts_that_repair_the_same_lessons_at_once_teach_them_once(split: Split, tmp_path: Path) -> None:
    await split.promote()
    await teach(split.host.spam_filter, range(20), "spam")
    for number in range(5):
        await split.host.spam_filter.unlearn(LETTERS[number], "http")
    shutil.copytree(tmp_path / "state", tmp_path / "copy")
    await split.switch()

    async with host_at(split.proxy.url, tmp_path / "copy") as other:
        await asyncio.gather(split.host.restorer.restore_missing(), other.restorer.restore_missing())

    repeated = [record.note.repeats async for record in split.promoted.history.records() if record.note.repeats]
    assert len(repeated) == len(set(repeated)) == 25
    assert await labels(split.promoted) == {
        LETTERS[n].key: "spam" if n < 20 else "ham" for n in (*range(5, 20), *range(100, 105))
    }
    await assert_exact(split.promoted)


async def test_a_chain_of_lost_lessons_is_repeated_in_its_order(split: Split) -> None:
    await split.promote()
    for number in range(3):
        await split.host.spam_filter.learn(LETTERS[number], "ham", "http")
        await split.host.spam_filter.learn(LETTERS[number], "spam", "http")
    await split.host.spam_filter.unlearn(LETTERS[1], "http")
    await split.host.spam_filter.unlearn(LETTERS[2], "http")
    await split.host.spam_filter.learn(LETTERS[2], "ham", "http")
    await split.switch()

    assert await split.host.restorer.restore_missing() == 9

    descriptions = [[record.description for record in await records(split.promoted, n)] for n in range(3)]
    assert descriptions[0] == ["learned ham", "relearned ham -> spam"]
    assert descriptions[1] == ["learned ham", "relearned ham -> spam", "unlearned spam"]
    assert descriptions[2] == ["learned ham", "relearned ham -> spam", "unlearned spam", "learned ham"]
    await assert_exact(split.promoted)


async def test_lost_changes_of_messages_that_the_replica_knows_follow_what_it_knows(split: Split) -> None:
    await teach(split.host.spam_filter, range(4), "ham")
    await split.promote()
    await split.host.spam_filter.learn(LETTERS[0], "spam", "http")
    await split.host.spam_filter.unlearn(LETTERS[1], "http")
    await split.switch()

    assert await split.host.restorer.restore_missing() == 2

    known = await labels(split.promoted)
    assert (known.get(LETTERS[0].key), known.get(LETTERS[1].key)) == ("spam", None)
    await assert_exact(split.promoted)


@pytest.mark.parametrize("later", ["ham", None])
async def test_a_later_word_on_the_message_stays(split: Split, later: str | None) -> None:
    await split.promote()
    await teach(split.host.spam_filter, range(2), "spam")
    await teach(split.promoted_filter, range(1), "ham")
    if later is None:
        await split.promoted_filter.unlearn(LETTERS[0], "test")
    await split.switch()

    assert await split.host.restorer.restore_missing() == 1

    known = await labels(split.promoted)
    assert (known.get(LETTERS[0].key), known[LETTERS[1].key]) == (later, "spam")
    assert split.host.losses.findings == {LessonFate.MISSING: 1, LessonFate.SUPERSEDED: 1}
    await assert_exact(split.promoted)


async def test_an_earlier_word_at_the_promoted_replica_is_replaced(split: Split) -> None:
    await split.promote()
    await teach(split.promoted_filter, range(1), "ham")
    await teach(split.host.spam_filter, range(1), "spam")
    await split.switch()

    assert await split.host.restorer.restore_missing() == 1

    assert (await labels(split.promoted))[LETTERS[0].key] == "spam"
    await assert_exact(split.promoted)


@pytest.mark.parametrize("last", ["old", "promoted"])
@pytest.mark.parametrize("is_removal", [False, True])
async def test_of_two_words_the_last_one_holds_while_the_clocks_of_both_servers_stand_still(
    split: Split, last: str, is_removal: bool
) -> None:
    """Redis's clock was an hour ahead, and was set back: all changes have the time at which it was."""
    keys = split.host.model.keys
    await teach(split.host.spam_filter, range(1), "ham")
    an_hour_ahead = round((time.time() + 3600) * 1000)
    for key in (keys.changes, keys.history):
        arguments = "XSETID", key, f"{an_hour_ahead}-0"
        await split.pair.at_primary.execute_command(*arguments)  # type: ignore[no-untyped-call]  # of redis-py
    await split.promote()
    filters = {"old": split.host.spam_filter, "promoted": split.promoted_filter}
    first = filters["promoted" if last == "old" else "old"]
    if is_removal:
        await teach(first, range(1), "spam")
        await filters[last].unlearn(LETTERS[0], "http")
    else:
        await first.unlearn(LETTERS[0], "http")
        await teach(filters[last], range(1), "spam")
    await split.switch()

    await split.host.restorer.restore_missing()

    assert (await labels(split.promoted)).get(LETTERS[0].key) == (None if is_removal else "spam")
    await assert_exact(split.promoted)


async def test_what_somebody_has_taught_again_is_not_lost(split: Split) -> None:
    await split.promote()
    await teach(split.host.spam_filter, range(2), "spam")
    await teach(split.promoted_filter, range(2), "spam")
    await split.switch()

    assert await split.host.restorer.restore_missing() == 0

    assert split.host.losses.findings == {}
    await assert_exact(split.promoted)


async def test_a_superseded_lesson_is_reported_once_and_stays_so_when_the_later_word_is_taken_back(
    split: Split,
) -> None:
    await split.promote()
    await teach(split.host.spam_filter, range(1), "spam")
    await teach(split.promoted_filter, range(1), "ham")
    await split.switch()
    await split.host.restorer.restore_missing()
    await split.promoted_filter.unlearn(LETTERS[0], "test")
    split.proxy.cut()
    await split.host.follow_other_server()

    assert await split.host.restorer.restore_missing() == 0

    assert split.host.losses.findings == {LessonFate.SUPERSEDED: 1}
    assert LETTERS[0].key not in await labels(split.promoted)


async def test_a_second_failover_that_loses_the_repair_is_repaired_too(split: Split, tmp_path: Path) -> None:
    await split.promote()
    await teach(split.host.spam_filter, range(3), "spam")
    await split.switch()
    await split.host.restorer.restore_missing()
    lost_twice = await records(split.promoted, 0)

    third = RedisServer(split.pair.primary.binary, tmp_path / "third")
    (tmp_path / "third").mkdir()
    third.start()
    try:
        async with host_at(third.url, tmp_path / "elsewhere") as successor:
            snapshot = await split.pair.at_primary.dump("nbstream:{test}:schema")
            await successor.model.client.restore("nbstream:{test}:schema", 0, snapshot or b"", replace=True)
            split.proxy.target = third.socket
            split.proxy.cut()
            await split.host.follow_other_server()

            assert await split.host.restorer.restore_missing() == 8

            again = await records(successor.model, 0)
            assert [record.note.repeats for record in again] == [record.note.repeats for record in lost_twice]
            await assert_exact(successor.model)
    finally:
        third.stop()


async def test_a_lesson_that_was_acknowledged_at_the_second_attempt_is_taught_again_too(split: Split) -> None:
    """The reply to the first attempt was lost, so nobody has recorded it: the second one finds it in place."""
    await split.promote()
    await teach(filter_of(split.pair.at_primary), range(3), "spam")
    await teach(split.host.spam_filter, range(3), "spam")
    await split.switch()

    assert await split.host.restorer.restore_missing() == 3
    assert await split.host.restorer.restore_missing() == 0

    assert split.host.losses.findings == {LessonFate.MISSING: 3}
    assert len(await records(split.promoted, 0)) == 1
    await assert_exact(split.promoted)


async def test_a_lesson_in_place_that_was_relearned_and_is_not_lost_is_left_alone(split: Split) -> None:
    await teach(filter_of(split.pair.at_primary), range(3), "ham")
    await teach(filter_of(split.pair.at_primary), range(3), "spam")
    await teach(split.host.spam_filter, range(3), "spam")
    await teach(filter_of(split.pair.at_primary), range(2), "ham")
    await split.promote()
    await split.switch()

    assert await split.host.restorer.restore_missing() == 0
    assert split.host.losses.findings == {}


async def test_a_lost_reply_to_the_repair_does_no_harm(own_redis: RedisServer, tmp_path: Path) -> None:
    async with (
        split_of(own_redis, tmp_path) as split,
        LosesOneReply(split.pair.replica.socket, tmp_path / "losing") as losing,
    ):
        await split.promote()
        await teach(split.host.spam_filter, range(3), "spam")
        async with host_at(losing.url, split.host.journal.folder.parent) as restarted:
            losing.broken = 0

            assert await restarted.restorer.restore_missing() == 3

        await assert_exact(split.promoted)
        repeated = [r.note.repeats async for r in split.promoted.history.records() if r.note.repeats]
        assert len(repeated) == len(set(repeated)) == 3


async def test_the_restorer_works_by_itself_after_a_switch(split: Split) -> None:
    await split.promote()
    await teach(split.host.spam_filter, range(7), "spam")
    async with restoring(split.host):
        await split.switch()

        await until(lambda: split.host.losses.restored == 7)

    await assert_exact(split.promoted)


async def test_lessons_of_a_process_that_was_killed_are_taught_again_by_the_next_one(split: Split) -> None:
    await split.promote()
    await teach(split.host.spam_filter, range(5), "spam")
    (file,) = lesson_segments(split.host.journal.folder)
    with file.open("ab") as torn:
        torn.write(file.read_bytes()[:300])  # the process was killed while it wrote the next one

    async with host_at(split.pair.replica.url, split.host.journal.folder.parent) as restarted:
        assert await restarted.restorer.restore_missing() == 5
        await assert_exact(restarted.model)


async def test_without_the_files_the_losses_are_said(split: Split, caplog: pytest.LogCaptureFixture) -> None:
    await split.promote()
    await teach(split.host.spam_filter, range(7), "spam")
    shutil.rmtree(split.host.journal.folder)
    await split.switch()

    assert await split.host.restorer.restore_missing() == 0

    assert split.host.losses.changes == 7
    assert "Redis has lost 7 changes that counts followed" in caplog.text
    (record,) = [record for record in caplog.records if record.msg.startswith("Redis had lost")]
    assert vars(record)["fields"]["not_recorded_here"] == 7


async def test_lessons_are_not_taught_to_a_model_that_was_emptied(
    split: Split, caplog: pytest.LogCaptureFixture
) -> None:
    await teach(split.host.spam_filter, range(3), "spam")
    await split.pair.at_primary.flushall()
    await split.host.follow_other_server()

    assert await split.host.restorer.restore_missing() == 0

    assert await labels(split.host.model) == {}
    assert "8 recorded lessons are not compared" in caplog.text
    await teach(split.host.spam_filter, range(1), "spam")
    assert await split.host.restorer.restore_missing() == 0


async def test_lessons_of_another_model_in_the_same_folder_are_left_alone(split: Split) -> None:
    other = Model(split.pair.at_primary, "other", 3600, journal=split.host.journal)
    identity = split.host.journal.identity
    await other.open()
    entry = (await live_entries(split.host.model))[LETTERS[100].key]
    note = (await records(split.host.model, 100))[0].note
    await other.commit_lesson("m", None, entry, note)
    split.host.journal.identity = identity
    await split.promote()
    await split.switch()

    assert await split.host.restorer.restore_missing() == 0


async def test_a_history_that_does_not_go_back_far_enough_is_not_guessed_at(
    split: Split, monkeypatch: pytest.MonkeyPatch
) -> None:
    await split.promote()
    await teach(split.host.spam_filter, range(2), "spam")
    await teach(split.promoted_filter, range(20, 32), "ham")
    await split.promoted.client.xtrim(split.promoted.keys.history, maxlen=2, approximate=False)
    monkeypatch.setattr("nbstream.store.model.history.MAX_HISTORY_RECORDS", 2)
    await split.switch()

    assert await split.host.restorer.restore_missing() == 0

    assert split.host.losses.findings == {LessonFate.UNKNOWN: 2}


async def test_a_lesson_whose_file_was_removed_meanwhile_is_unknown(split: Split) -> None:
    await split.promote()
    await teach(split.host.spam_filter, range(2), "spam")
    await split.switch()
    reader = split.host.restorer._reader
    recorded = reader.read_next("test")
    shutil.rmtree(split.host.journal.folder)

    assert [reader.read_lesson(lesson) for lesson in recorded] == [None] * 7


async def test_undone_changes_that_were_lost_are_told_from_the_changes_that_they_resemble(split: Split) -> None:
    await teach(split.host.spam_filter, range(1), "spam")
    first = await split.host.model.entry(LETTERS[0].key)
    assert first is not None
    note = (await records(split.host.model, 0))[0].note
    await split.host.model.commit_lesson(LETTERS[0].key, first, None, note)
    await split.promote()
    await split.host.model.commit_lesson(LETTERS[0].key, None, first, note)  # as an undo puts it back
    await split.switch()

    assert await split.host.restorer.restore_missing() == 1

    assert (await labels(split.promoted))[LETTERS[0].key] == "spam"
    await assert_exact(split.promoted)


async def test_a_server_that_the_mirror_does_not_follow_is_not_compared(split: Split) -> None:
    """A pool may still hold connections to the old primary, which has all that the promoted replica lacks."""
    await split.promote()
    await teach(split.promoted_filter, range(20, 22), "ham")
    async with host_at(split.pair.replica.url, split.host.journal.folder.parent) as divided:
        divided.restorer._model = split.host.model

        with pytest.raises(Exception, match="not the one that the mirror follows"):
            await divided.restorer.restore_missing()


async def test_a_repair_waits_for_no_replica_since_a_promoted_one_may_have_none(split: Split) -> None:
    await split.promote()
    await teach(split.host.spam_filter, range(3), "spam")
    await split.switch()
    waiting = Model(
        split.host.model.client, "test", 3600, journal=split.host.journal, replica_wait=ReplicaWaitOptions(1, 0.1)
    )
    restorer = LessonRestorer(split.host.journal, waiting, split.host.mirror, split.host.losses.report)

    assert await restorer.restore_missing() == 3

    assert split.host.losses.findings == {LessonFate.MISSING: 3}
    await assert_exact(split.promoted)


async def test_what_another_host_unlearned_stays_unlearned_whoever_repairs_first(
    split: Split, tmp_path: Path
) -> None:
    async with host_at(split.proxy.url, tmp_path / "other") as other:
        await split.promote()
        await teach(split.host.spam_filter, range(2), "spam")
        await other.spam_filter.unlearn(LETTERS[0], "http")
        await split.switch()
        await until(lambda: equals_redis_exactly(other.mirror, split.promoted))

        assert await other.restorer.restore_missing() == 0, "there is nothing to take back yet"
        assert await split.host.restorer.restore_missing() == 2
        assert await other.restorer.restore_missing() == 1

        assert LETTERS[0].key not in await labels(split.promoted)
        assert (await labels(split.promoted))[LETTERS[1].key] == "spam"
        await assert_exact(split.promoted)
        assert await other.restorer.restore_missing() == 0
        assert await split.host.restorer.restore_missing() == 0


def let_an_hour_pass(split: Split) -> float:
    """Make the files of lessons an hour old; return that time."""
    an_hour_ago = time.time() - 3600
    for path in lesson_segments(split.host.journal.folder):
        os.utime(path, (an_hour_ago, an_hour_ago))
    return an_hour_ago


async def test_what_two_primaries_took_for_an_hour_is_taught_again(split: Split) -> None:
    """All that time the former primary has the lessons, and nobody else does."""
    await until(lambda: has_replicas(split, 1))
    await split.host.restorer.restore_missing()
    await split.promote()
    await until(lambda: has_replicas(split, 0))
    await teach(split.host.spam_filter, range(3), "spam")
    let_an_hour_pass(split)
    assert await split.host.restorer.restore_missing() == 0, "nothing is missing where the host looks"
    await split.switch()

    assert await split.host.restorer.restore_missing() == 3

    assert {(await labels(split.promoted))[LETTERS[n].key] for n in range(3)} == {"spam"}
    await assert_exact(split.promoted)


async def has_replicas(split: Split, count: int) -> bool:
    role: Any = await split.pair.at_primary.role()
    return len(role[2]) == count


async def test_what_the_replicas_have_is_not_recorded_for_longer(split: Split) -> None:
    await teach(split.host.spam_filter, range(3), "spam")
    let_an_hour_pass(split)

    await split.host.restorer.restore_missing()

    assert lesson_segments(split.host.journal.folder) == []


async def test_what_was_lost_in_an_outage_of_an_hour_is_taught_again(split: Split) -> None:
    """As where nobody promotes a replica before an administrator does."""
    await split.promote()
    await teach(split.host.spam_filter, range(2), "spam")
    an_hour_ago = let_an_hour_pass(split)
    await split.switch()
    other_process = JournalWriter(lesson_files(split.host.journal.folder), 1 << 20)
    other_process.append([])
    other_process.close()

    assert await split.host.restorer.restore_missing() == 2

    old = [path for path in lesson_segments(split.host.journal.folder) if path.stat().st_mtime <= an_hour_ago]
    assert old == [], "what was compared is not needed any more"
