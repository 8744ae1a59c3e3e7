"""The journal keeps what is acknowledged for some minutes, and never stands in the way of a lesson."""

from __future__ import annotations

import asyncio
import errno
import os
import stat
import struct
import threading
import time
import zlib
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from nbstream.store.acknowledged import lesson_journal
from nbstream.store.acknowledged.lesson_journal import (
    LessonFileReader,
    LessonFileWriter,
    LessonJournal,
    pack_frame,
    remove_expired,
    unpack_frames,
)
from nbstream.store.model.commit import KEPT_SECONDS
from tests.integration.test_full_disk import fill
from tests.store.acknowledged.test_lesson_frames import acknowledged
from tests.waiting import until


@pytest.fixture
async def journal(tmp_path: Path) -> AsyncIterator[LessonJournal]:
    journal = LessonJournal(tmp_path / "state" / "acknowledged")
    yield journal
    await journal.close()


def recorded_keys(folder: Path) -> list[str]:
    return [lesson.message_key for lesson in LessonFileReader(folder).read_next("test", "0123").lessons]


async def test_lessons_are_in_the_file_when_record_returns(journal: LessonJournal) -> None:
    await journal.record([acknowledged(1), acknowledged(2)])
    await journal.record([acknowledged(3)])

    assert recorded_keys(journal.folder) == ["m1", "m2", "m3"]


async def test_nobody_else_can_read_the_files(journal: LessonJournal) -> None:
    await journal.record([acknowledged()])

    (file,) = lesson_journal.lesson_files(journal.folder)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(journal.folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(journal.folder.parent.stat().st_mode) == 0o700


async def test_writers_share_a_folder(journal: LessonJournal) -> None:
    other = LessonJournal(journal.folder)
    await asyncio.gather(
        *(writer.record([acknowledged(n)]) for n in range(50) for writer in (journal, other)),
    )
    await other.close()

    assert sorted(recorded_keys(journal.folder)) == sorted(2 * [f"m{n}" for n in range(50)])


async def test_a_reader_reads_each_lesson_once_while_it_is_written(journal: LessonJournal) -> None:
    reader = LessonFileReader(journal.folder)
    for number in range(5):
        await journal.record([acknowledged(number)])
        assert [lesson.message_key for lesson in reader.read_next("test", "0123").lessons] == [f"m{number}"]
    reader.start_again()
    assert len(reader.read_next("test", "0123").lessons) == 5


def test_a_writer_keeps_the_newest_of_too_many_lessons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frames = [pack_frame(acknowledged(number)) for number in range(100, 200)]
    monkeypatch.setattr(lesson_journal, "_SEGMENT_BYTES", 3 * len(frames[0]))
    monkeypatch.setattr(lesson_journal, "MAX_BYTES", 9 * len(frames[0]))
    writer = LessonFileWriter(tmp_path / "folder")
    for frame in frames:
        writer.append(frame)
        size = sum(file.stat().st_size for file in lesson_journal.lesson_files(tmp_path / "folder"))
        assert size <= 9 * len(frame)
    writer.close()

    assert recorded_keys(tmp_path / "folder")[-6:] == [f"m{n}" for n in range(194, 200)]


def test_a_file_is_written_for_some_minutes_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Therefore an old file has no writer."""
    writer = LessonFileWriter(tmp_path / "folder")
    writer.append(pack_frame(acknowledged(1)))
    monkeypatch.setattr(lesson_journal, "SEGMENT_SECONDS", 0.0)
    writer.append(pack_frame(acknowledged(2)))
    writer.close()

    assert len(list(lesson_journal.lesson_files(tmp_path / "folder"))) == 2
    assert KEPT_SECONDS > 180


async def test_old_files_are_removed_whoever_wrote_them_and_others_are_left(journal: LessonJournal) -> None:
    await journal.record([acknowledged()])
    (file,) = lesson_journal.lesson_files(journal.folder)
    foreign = journal.folder / "notes.txt"
    foreign.write_text("of an administrator")
    changed = file.stat().st_mtime
    for path in (file, foreign):
        os.utime(path, (changed, changed))

    remove_expired(journal.folder, changed + KEPT_SECONDS - 1)
    assert file.exists()
    remove_expired(journal.folder, changed + KEPT_SECONDS + 1)
    assert not file.exists()
    assert foreign.exists()


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


async def test_a_disk_that_does_not_answer_holds_up_one_lesson_only(
    journal: LessonJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lesson_journal, "_WRITE_SECONDS", 0.05)
    answers, append = threading.Event(), journal._writer.append

    def append_when_it_answers(data: bytes) -> None:
        answers.wait(20)
        append(data)

    monkeypatch.setattr(journal._writer, "append", append_when_it_answers)
    unrecorded = list[int]()
    journal.report_unrecorded_to(unrecorded.append)
    monkeypatch.setattr(lesson_journal, "_MAX_WAITING_BYTES", 10 * len(pack_frame(acknowledged())))
    for _ in range(12):
        await journal.record([acknowledged()])
    assert sum(unrecorded) == 2
    answers.set()
    await until(lambda: journal._waiting_bytes == 0)
    await journal.record([acknowledged(9)])

    assert len(recorded_keys(journal.folder)) == 11


async def test_a_damaged_file_is_said_once_and_the_others_are_read(
    journal: LessonJournal, caplog: pytest.LogCaptureFixture
) -> None:
    await journal.record([acknowledged(1)])
    damaged = journal.folder / f"{1:020d}-{'0' * 16}.lessons"
    damaged.write_bytes(pack_frame(acknowledged(2)) + b"\0" * 100)
    reader = LessonFileReader(journal.folder)

    for _ in range(3):
        reader.start_again()
        keys = [lesson.message_key for lesson in reader.read_next("test", "0123").lessons]
        assert keys == ["m2", "m1"]
    assert len(caplog.records) == 1
    assert "damaged after" in caplog.text


async def test_what_is_no_file_is_said_once_and_never_waited_for(
    journal: LessonJournal, caplog: pytest.LogCaptureFixture
) -> None:
    await journal.record([acknowledged(1)])
    (file,) = lesson_journal.lesson_files(journal.folder)
    pipe, folder, link = (journal.folder / f"{n:020d}-{'0' * 16}.lessons" for n in range(3))
    os.mkfifo(pipe)
    folder.mkdir()
    link.symlink_to(file)
    reader = LessonFileReader(journal.folder)

    for _ in range(2):
        reader.start_again()
        assert [lesson.message_key for lesson in reader.read_next("test", "0123").lessons] == ["m1"]
    assert len(caplog.records) == 3


async def test_a_lesson_whose_change_is_none_is_left_out(
    journal: LessonJournal, caplog: pytest.LogCaptureFixture
) -> None:
    """Else each start of the daemon would end with it, as long as its file is there."""
    await journal.record([acknowledged(1), replace(acknowledged(2), change=b"&17-1"), acknowledged(3)])

    assert recorded_keys(journal.folder) == ["m1", "m3"]
    assert "is the id of no change" in caplog.text


def test_a_folder_without_files_has_no_lessons(tmp_path: Path) -> None:
    assert recorded_keys(tmp_path / "missing") == []
    assert recorded_keys(tmp_path) == []


async def test_each_lesson_can_be_read_again_by_its_place_in_the_file(journal: LessonJournal) -> None:
    written = [acknowledged(number) for number in range(5)]
    reader = LessonFileReader(journal.folder)
    recorded = []
    for lesson in written:
        await journal.record([lesson, lesson])
        recorded += reader.read_next("test", "0123").lessons

    assert [reader.read_lesson(lesson) for lesson in recorded] == [lesson for lesson in written for _ in range(2)]
    assert sum(lesson.size for lesson in recorded) == recorded[0].path.stat().st_size


def test_what_cannot_be_written_leaves_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = LessonFileWriter(tmp_path / "acknowledged")
    written = os.write

    def refuse(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", refuse)
    for number in range(50):
        with pytest.raises(OSError, match="No space left"):
            writer.append(pack_frame(acknowledged(number)))
    assert list((tmp_path / "acknowledged").iterdir()) == []

    monkeypatch.setattr(os, "write", written)
    writer.append(pack_frame(acknowledged(99)))
    writer.close()
    assert recorded_keys(tmp_path / "acknowledged") == ["m99"]


def test_a_file_that_somebody_removed_is_not_written_any_more(tmp_path: Path) -> None:
    """As after a jump of the clock: every file looks old then."""
    folder = tmp_path / "acknowledged"
    writer = LessonFileWriter(folder)
    writer.append(pack_frame(acknowledged(1)))
    remove_expired(folder, time.time() + 10_000)
    writer.append(pack_frame(acknowledged(2)))
    writer.close()

    assert recorded_keys(folder) == ["m2"]


def test_lessons_of_another_format_are_no_lessons() -> None:
    frame = pack_frame(acknowledged(1))
    content = bytearray(frame[8:])
    assert content[4:5] == b"1", "the version of the format comes first"
    content[4:5] = b"2"
    other = struct.pack(">II", len(content), zlib.crc32(content)) + content

    assert unpack_frames(other).lessons == ()
    assert unpack_frames(other).is_damaged
