"""What was recorded is read once, damage is said once, and old files are removed."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import SecretStr

from nbstream.assembly.store import open_redis
from nbstream.config import Settings
from nbstream.store.embedded import locks
from nbstream.store.journal import writer as journal_writer
from nbstream.store.journal.frames import pack_frame
from nbstream.store.model import lesson_journal
from nbstream.store.model.lesson_journal import KEPT_SECONDS, AcknowledgedLesson, LessonJournal, lesson_files
from nbstream.store.recovery.recorded_lessons import LessonReader
from nbstream.store.settings import RedisSettings
from tests.store.acknowledged_lessons import acknowledged, lesson_segments, recorded_keys

RELEASED = Path(__file__).parents[1] / "released" / "0.7.0-state" / "acknowledged"
"""Written by 0.7.0: three lessons in two files, of which the second one ends within a fourth lesson."""


@pytest.fixture
async def journal(tmp_path: Path) -> AsyncIterator[LessonJournal]:
    journal = LessonJournal(tmp_path / "acknowledged")
    yield journal
    await journal.close()


def keys(reader: LessonReader) -> list[str]:
    return [lesson.message_key for lesson in reader.read_next("test")]


def earlier_segment(folder: Path, number: int, *lessons: AcknowledgedLesson, rest: bytes = b"") -> Path:
    path = folder / f"{number:012d}.lessons"
    frames = b"".join(pack_frame(lesson.pack()) for lesson in lessons)
    path.write_bytes(b"nbstream lessons 2\n" + frames + rest)
    return path


async def test_a_reader_reads_each_lesson_once_while_it_is_written(journal: LessonJournal) -> None:
    reader = LessonReader(journal.folder)
    for number in range(5):
        await journal.record([acknowledged(number)])
        assert keys(reader) == [f"m{number}"]
    reader.start_again()
    assert len(keys(reader)) == 5


async def test_however_much_a_command_learns_the_lessons_of_the_daemon_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lesson_journal, "MAX_BYTES", 1)
    monkeypatch.setattr(journal_writer, "SEGMENT_SECONDS", -1)  # each lesson has a segment
    settings = Settings(state_dir=tmp_path, redis=RedisSettings(url=SecretStr("redis://127.0.0.1:1")))
    async with open_redis(settings, is_daemon=True) as daemon, open_redis(settings) as command:
        assert daemon.journal
        assert command.journal
        await daemon.journal.record([acknowledged(1)])
        for number in (2, 3):
            await command.journal.record([acknowledged(number)])

    reader = LessonReader(tmp_path / "acknowledged")
    assert keys(reader) == ["m1", "m3"]
    assert keys(reader) == []


def test_the_daemon_makes_the_folder_of_commands_before_a_command_of_root_does(tmp_path: Path) -> None:
    assert keys(LessonReader(tmp_path / "acknowledged")) == []

    folders = [tmp_path / "acknowledged", tmp_path / "acknowledged" / "commands"]
    assert [folder.stat().st_mode & 0o777 for folder in folders] == [0o700, 0o700]


async def test_a_process_that_was_stopped_while_it_appended_holds_nobody_up_for_long(
    journal: LessonJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "LOCK_SECONDS", 0.05)
    unrecorded = list[int]()
    journal.report_unrecorded_to(unrecorded.append)
    await journal.record([acknowledged(1)])
    reader = LessonReader(journal.folder)
    (segment,) = lesson_segments(journal.folder)
    os.utime(segment, (0, time.time() - 2 * KEPT_SECONDS))

    with lesson_files(journal.folder).locked():
        await asyncio.wait_for(journal.record([acknowledged(2)]), 10)
        await asyncio.wait_for(asyncio.to_thread(reader.remove_compared), 10)

    assert unrecorded == [1]
    assert keys(reader) == ["m1"]


async def test_each_lesson_can_be_read_again_by_its_place(journal: LessonJournal) -> None:
    written = [acknowledged(number) for number in range(5)]
    reader = LessonReader(journal.folder)
    recorded = []
    for lesson in written:
        await journal.record([lesson, lesson])
        recorded += reader.read_next("test")

    assert [reader.read_lesson(lesson) for lesson in recorded] == [lesson for lesson in written for _ in range(2)]


async def test_a_lesson_that_is_to_be_read_again_is_read_as_long_as_it_is_there(journal: LessonJournal) -> None:
    await journal.record([acknowledged(1), acknowledged(2)])
    reader = LessonReader(journal.folder)
    first, _ = reader.read_next("test")
    reader.read_again(first)

    assert keys(reader) == ["m1"]
    assert keys(reader) == []
    reader.read_again(first)
    shutil.rmtree(journal.folder)
    assert keys(reader) == []


async def test_a_damaged_lesson_is_said_once_and_the_others_are_read(
    journal: LessonJournal, caplog: pytest.LogCaptureFixture
) -> None:
    await journal.record([acknowledged(3)])
    frame = pack_frame(acknowledged(1).pack())
    later = pack_frame(acknowledged(2).pack())
    earlier_segment(journal.folder, 1, rest=frame[:-1] + b"?" + later + b"\0" * 100)
    reader = LessonReader(journal.folder)

    for _ in range(3):
        reader.start_again()
        assert keys(reader) == ["m2", "m3"]
    assert len(caplog.records) == 1
    assert "damaged after" in caplog.text


async def test_a_lesson_of_another_format_is_no_lesson(
    journal: LessonJournal, caplog: pytest.LogCaptureFixture
) -> None:
    await journal.record([acknowledged(2)])
    record = [b"9", *acknowledged(1).pack()[1:]]
    earlier_segment(journal.folder, 1, rest=pack_frame(record))
    (journal.folder / f"{2:012d}.lessons").write_bytes(b"nbstream lessons 9\n" + pack_frame(record))

    assert recorded_keys(journal.folder) == ["m2"]
    assert "version" in caplog.text


async def test_what_is_no_file_is_said_once_and_never_waited_for(
    journal: LessonJournal, caplog: pytest.LogCaptureFixture
) -> None:
    await journal.record([acknowledged(1)])
    (file,) = lesson_segments(journal.folder)
    for form in ("{:012d}.lessons", f"{{:020d}}-{'0' * 16}.lessons"):
        pipe, folder, link = (journal.folder / form.format(number) for number in range(3))
        os.mkfifo(pipe)
        folder.mkdir()
        link.symlink_to(file)
    reader = LessonReader(journal.folder)

    for _ in range(2):
        reader.start_again()
        assert keys(reader) == ["m1"]
    assert len(caplog.records) == 6


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


async def test_old_files_are_removed_and_others_are_left(journal: LessonJournal) -> None:
    reader = LessonReader(journal.folder)
    await journal.record([acknowledged(1)])
    notes, old = journal.folder / "notes.txt", earlier_segment(journal.folder, 1, acknowledged(0))
    notes.write_text("of an administrator")
    for path in (notes, old):
        os.utime(path, (0, time.time() - KEPT_SECONDS - 1))
    reader.remove_compared()
    assert keys(reader) == ["m1"]
    assert notes.exists()

    (file,) = lesson_segments(journal.folder)
    os.utime(file, (0, time.time() - KEPT_SECONDS - 1))
    reader.remove_compared()
    assert lesson_segments(journal.folder) == []
    await journal.record([acknowledged(2)])
    assert keys(reader) == ["m2"], "what comes afterwards is behind what was read"


async def test_the_lessons_that_0_7_has_left_are_taken_over_once(journal: LessonJournal) -> None:
    shutil.copytree(RELEASED, journal.folder)
    reader = LessonReader(journal.folder)
    recorded = reader.read_next("test")
    await journal.record([acknowledged(9)])

    assert [lesson.message_key for lesson in recorded] == ["m1", "m2", "m3"]
    assert [lesson.version for lesson in recorded] == ["v1", "v2", "v3"]
    lesson = reader.read_lesson(recorded[2])
    assert lesson is not None
    assert lesson.entry is not None
    assert (lesson.entry.tokens, lesson.note.source) == ((b"=x:free", b"token:1"), "test")
    assert keys(reader) == ["m9"]
    assert not list(journal.folder.glob("*-*")), "the former files are removed"
    assert recorded_keys(journal.folder) == ["m1", "m2", "m3", "m9"]
