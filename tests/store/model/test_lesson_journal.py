"""The journal keeps what is acknowledged for some minutes, and never stands in the way of a lesson."""

from __future__ import annotations

import asyncio
import errno
import os
import stat
import threading
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from nbstream.store.journal import writer as journal_writer
from nbstream.store.journal.frames import pack_frame
from nbstream.store.journal.writer import JournalWriter, Record
from nbstream.store.model import lesson_journal
from nbstream.store.model.lesson_journal import LessonJournal, lesson_files
from nbstream.store.recovery.recorded_lessons import LessonReader
from tests.integration.test_full_disk import fill
from tests.store.acknowledged_lessons import acknowledged, lesson_segments, recorded_keys
from tests.waiting import until


@pytest.fixture
async def journal(tmp_path: Path) -> AsyncIterator[LessonJournal]:
    journal = LessonJournal(tmp_path / "state" / "acknowledged")
    yield journal
    await journal.close()


async def test_lessons_are_in_the_file_when_record_returns(journal: LessonJournal) -> None:
    await journal.record([acknowledged(1), acknowledged(2)])
    await journal.record([acknowledged(3)])

    assert recorded_keys(journal.folder) == ["m1", "m2", "m3"]


async def test_nobody_else_can_read_the_files(journal: LessonJournal) -> None:
    await journal.record([acknowledged()])
    LessonReader(journal.folder).remove_compared()

    for path in (*journal.folder.iterdir(), journal.folder, journal.folder.parent):
        assert not stat.S_IMODE(path.stat().st_mode) & 0o077, path


async def test_writers_share_a_folder(journal: LessonJournal) -> None:
    other = LessonJournal(journal.folder)
    await asyncio.gather(
        *(writer.record([acknowledged(n)]) for n in range(50) for writer in (journal, other)),
    )
    await other.close()

    assert sorted(recorded_keys(journal.folder)) == sorted(2 * [f"m{n}" for n in range(50)])


def test_the_newest_of_too_many_lessons_are_kept(tmp_path: Path) -> None:
    size = len(pack_frame(acknowledged(100).pack()))
    writer = JournalWriter(lesson_files(tmp_path / "folder"), 9 * size, segment_bytes=2 * size)
    for number in range(100, 200):
        writer.append([acknowledged(number).pack()])
        segments = lesson_segments(tmp_path / "folder")
        assert sum(file.stat().st_size for file in segments) <= 10 * size  # one append more
    writer.close()

    assert recorded_keys(tmp_path / "folder")[-4:] == [f"m{n}" for n in range(196, 200)]


async def test_a_file_is_written_for_some_minutes_only(
    journal: LessonJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Therefore old lessons can be removed, however many new ones there are."""
    await journal.record([acknowledged(1)])
    monkeypatch.setattr(journal_writer, "SEGMENT_SECONDS", -1)
    await journal.record([acknowledged(2)])

    assert len(lesson_segments(journal.folder)) == 2


async def test_what_nobody_compares_is_removed_after_a_day(journal: LessonJournal) -> None:
    """As where there are commands, and no daemon."""
    await journal.record([acknowledged(1)])
    (file,) = lesson_segments(journal.folder)
    yesterday = int(time.time()) - 86_401
    os.utime(file.rename(lesson_files(journal.folder).path(yesterday)), (0, yesterday))
    await journal.record([acknowledged(2)])

    assert recorded_keys(journal.folder) == ["m2"]


async def test_a_folder_that_cannot_be_used_refuses_no_lesson_and_is_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    (tmp_path / "file").write_text("in the way")
    journal, unrecorded = LessonJournal(tmp_path / "file" / "acknowledged"), list[int]()
    journal.report_unrecorded_to(unrecorded.append)
    for _ in range(3):
        await journal.record([acknowledged(1), acknowledged(2)])
    (tmp_path / "file").unlink()
    await journal.record([acknowledged(3)])
    await journal.close()

    assert unrecorded == [2, 2, 2]
    assert [record.message.partition(":")[0] for record in caplog.records] == [
        "acknowledged lessons are not recorded",
        "acknowledged lessons are recorded again",
    ]
    assert recorded_keys(journal.folder) == ["m3"]


async def test_a_full_disk_refuses_no_lesson_and_spoils_no_other(small_disk: Path) -> None:
    journal, unrecorded = LessonJournal(small_disk / "acknowledged"), list[int]()
    journal.report_unrecorded_to(unrecorded.append)
    await journal.record([acknowledged(0)])
    filler = fill(small_disk)
    for number in range(1, 60):
        await journal.record([acknowledged(number)])
    filler.unlink()
    await journal.record([acknowledged(99)])
    await journal.close()

    keys = recorded_keys(small_disk / "acknowledged")
    assert unrecorded
    assert set(unrecorded) == {1}
    assert len(keys) == 61 - len(unrecorded)
    assert (keys[0], keys[-1]) == ("m0", "m99")


async def test_what_cannot_be_written_leaves_no_files(
    journal: LessonJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", refuse)
        for number in range(50):
            await journal.record([acknowledged(number)])
    assert lesson_segments(journal.folder) == []

    await journal.record([acknowledged(99)])
    assert recorded_keys(journal.folder) == ["m99"]


def slow_disk(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Have nothing written until the event is set, and no lesson wait for that."""
    monkeypatch.setattr(lesson_journal, "_WRITE_SECONDS", 0.05)
    answers, append = threading.Event(), JournalWriter.append

    def append_when_it_answers(writer: JournalWriter, records: Sequence[Record]) -> None:
        answers.wait(20)
        append(writer, records)

    monkeypatch.setattr(JournalWriter, "append", append_when_it_answers)
    return answers


async def test_what_a_process_could_not_write_before_its_end_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_writer, "_CLOSE_SECONDS", 0.05)
    answers, unrecorded = slow_disk(monkeypatch), list[int]()
    journal = LessonJournal(tmp_path / "acknowledged")
    journal.report_unrecorded_to(unrecorded.append)
    for number in range(3):  # the first one is being written
        await journal.record([acknowledged(number)])
    await journal.close()
    await until(lambda: len(unrecorded) == 2)
    answers.set()


async def test_a_disk_that_does_not_answer_holds_up_one_lesson_only(
    journal: LessonJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = slow_disk(monkeypatch)
    unrecorded = list[int]()
    journal.report_unrecorded_to(unrecorded.append)
    size = sum(map(len, acknowledged().pack()))
    monkeypatch.setattr(lesson_journal, "_MAX_WAITING_BYTES", 10 * size)
    for _ in range(12):
        await journal.record([acknowledged()])
    assert sum(unrecorded) == 2
    answers.set()
    await until(lambda: journal._waiting_bytes == 0)
    await journal.record([acknowledged(9)])

    assert len(recorded_keys(journal.folder)) == 11


async def test_a_file_that_somebody_removed_is_not_written_any_more(journal: LessonJournal) -> None:
    await journal.record([acknowledged(1)])
    (file,) = lesson_segments(journal.folder)
    file.unlink()
    await journal.record([acknowledged(2)])

    assert recorded_keys(journal.folder) == ["m2"]


async def test_a_file_that_this_process_cannot_write_stands_in_nobodys_way(journal: LessonJournal) -> None:
    """As that of a command that another user ran; a folder in its place is one for root, too."""
    await journal.record([acknowledged(1)])
    lesson_files(journal.folder).path(10**11).mkdir()
    await journal.record([acknowledged(2)])
    await journal.record([acknowledged(3)])

    assert recorded_keys(journal.folder) == ["m1", "m2", "m3"]
    assert len(lesson_segments(journal.folder)) == 3
