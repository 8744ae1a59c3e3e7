"""The spool on a real disk: what was acknowledged is read once, in its order, whenever a process dies."""

from __future__ import annotations

import errno
import os
import resource
import stat
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from nbstream.listeners.dovecot.spool import (
    MAX_FAILED,
    SpoolBacklog,
    SpooledMessage,
    SpoolReader,
    measure_backlog,
)
from nbstream.store.journal import writer as journal_writer
from nbstream.store.journal.journal import Journal
from nbstream.store.journal.writer import JournalWriter
from tests.listeners.dovecot.spools import MAX_BYTES, SpoolWriter, frame, message, read_all, segments

MEMORY = Path("/dev/shm")
FIRST_LINE = b"nbstream spool 1\n"


def segment_usage(folder: Path) -> int:
    return sum(path.stat().st_size for path in segments(folder))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "spool"


@pytest.fixture
def writer(folder: Path) -> SpoolWriter:
    return SpoolWriter(folder, MAX_BYTES)


def test_messages_are_read_in_the_order_of_their_answers(folder: Path, writer: SpoolWriter) -> None:
    writer.append([message(1), message(2)])
    writer.append([message(3)])

    assert read_all(SpoolReader(folder)) == [message(1), message(2), message(3)]


def test_several_writers_share_one_order(folder: Path) -> None:
    writers = [SpoolWriter(folder, MAX_BYTES, segment_bytes=300) for _ in range(3)]
    for number in range(30):
        writers[number % 3].append([message(number)])

    assert read_all(SpoolReader(folder)) == [message(number) for number in range(30)]


def test_what_was_read_is_not_read_again(folder: Path, writer: SpoolWriter) -> None:
    writer.append([message(1), message(2)])
    reader = SpoolReader(folder)
    entry = reader.take()
    assert entry is not None
    reader.finish(entry)

    assert read_all(SpoolReader(folder)) == [message(2)]
    assert measure_backlog(folder) == SpoolBacklog()


def test_the_folder_is_open_to_its_owner_alone(folder: Path, writer: SpoolWriter) -> None:
    writer.append([message(1)])
    SpoolReader(folder).take()

    for path in (folder, *folder.iterdir()):
        assert not stat.S_IMODE(path.stat().st_mode) & 0o077, path


def test_what_waits_is_never_removed(folder: Path, writer: SpoolWriter) -> None:
    reader = SpoolReader(folder)
    writer.append([message(1)])
    assert read_all(reader) == [message(1)]
    writer.append([message(2)])
    reader.remove_learned()

    assert read_all(reader) == [message(2)]


@pytest.mark.parametrize("rest", [b"", FIRST_LINE[:5], FIRST_LINE, FIRST_LINE + frame(message(9))[:-1]])
def test_what_a_killed_writer_has_begun_is_no_message_and_hinders_nobody(folder: Path, rest: bytes) -> None:
    SpoolWriter(folder, MAX_BYTES).append([message(1)])
    later = int(segments(folder)[-1].stem) + 1
    Journal(folder).path(later).write_bytes(rest)
    SpoolWriter(folder, MAX_BYTES).append([message(2)])

    assert read_all(SpoolReader(folder)) == [message(1), message(2)]


def test_a_damaged_message_is_kept_aside_and_the_others_are_read(folder: Path, writer: SpoolWriter) -> None:
    writer.append([message(1), message(2), message(3)])
    path = segments(folder)[0]
    frames = [frame(message(number)) for number in (1, 2, 3)]
    path.write_bytes(FIRST_LINE + frames[0] + frames[1][:-1] + b"?" + frames[2])

    assert read_all(SpoolReader(folder)) == [message(1), message(3)]
    (kept,) = (folder / "failed" / "damaged").iterdir()
    assert kept.read_bytes() == frames[1][:-1] + b"?"


def test_zeros_after_a_crash_of_the_machine_are_skipped(folder: Path, writer: SpoolWriter) -> None:
    writer.append([message(1)])
    with segments(folder)[0].open("ab") as file:
        file.write(bytes(4096))
    SpoolWriter(folder, MAX_BYTES).append([message(2)])

    assert read_all(SpoolReader(folder)) == [message(1), message(2)]


def test_the_backlog_can_be_measured_where_a_record_is_no_message(folder: Path, writer: SpoolWriter) -> None:
    JournalWriter(Journal(folder), MAX_BYTES).append([[b"spam", b"user ann"]])
    writer.append([message(1)])

    assert measure_backlog(folder) == SpoolBacklog(2, 0, message(1).received_at)
    assert read_all(SpoolReader(folder)) == [message(1)]
    assert measure_backlog(folder) == SpoolBacklog(failed=1)


def test_another_version_is_not_touched(folder: Path, writer: SpoolWriter) -> None:
    writer.append([message(1)])
    path = segments(folder)[0]
    other = path.read_bytes().replace(b"spool 1", b"spool 2")
    path.write_bytes(other)

    SpoolWriter(folder, MAX_BYTES).append([message(2)])
    with pytest.raises(OSError, match="another version"):
        SpoolReader(folder).take()

    assert path.read_bytes() == other
    assert len(segments(folder)) == 2


def test_a_position_that_cannot_be_read_means_the_beginning(folder: Path, writer: SpoolWriter) -> None:
    writer.append([message(1)])
    read_all(SpoolReader(folder))
    (folder / "position").write_bytes(b"0 17 0 00000000")

    assert read_all(SpoolReader(folder)) == [message(1)]


def test_a_full_spool_takes_nothing_until_there_is_room(folder: Path) -> None:
    writer = SpoolWriter(folder, 5000, segment_bytes=1000)
    writer.append([message(1)])
    count = 1
    while segment_usage(folder) + len(frame(message(count + 1))) <= 5000:
        count += 1
        writer.append([message(count)])
    with pytest.raises(OSError, match="the spool is full") as caught:
        writer.append([message(count + 1)])
    assert caught.value.errno == errno.ENOSPC

    assert read_all(SpoolReader(folder)) == [message(number + 1) for number in range(count)]
    writer.append([message(count + 1)])


@pytest.fixture
def disk_that_fills_up() -> Iterator[Callable[[int], None]]:
    """Give a function that sets how large a file may grow, as a full disk does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("writers", [1, 2])
def test_what_was_read_before_a_failed_write_was_undone_hides_no_later_message(
    folder: Path, disk_that_fills_up: Callable[[int], None], monkeypatch: pytest.MonkeyPatch, writers: int
) -> None:
    """The reader sees the first message of two while the disk has no room for the second one."""
    reader = SpoolReader(folder)
    first, *_, last = [SpoolWriter(folder, MAX_BYTES) for _ in range(writers)] * 2
    first.append([message(1)])
    seen, truncate = read_all(reader), os.ftruncate

    def read_and_truncate(descriptor: int, size: int) -> None:
        seen.extend(read_all(reader))
        truncate(descriptor, size)

    monkeypatch.setattr(os, "ftruncate", read_and_truncate)
    disk_that_fills_up(segment_usage(folder) + len(frame(message(2))) + 9)
    with pytest.raises(OSError, match="File too large"):
        first.append([message(2), message(3)])
    assert seen == [message(1), message(2)]

    disk_that_fills_up(MAX_BYTES)
    last.append([message(4, b"short")])
    last.append([message(5)])
    assert read_all(reader) == [message(4, b"short"), message(5)]


def test_a_segment_that_is_removed_meanwhile_hinders_no_writer(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer, reader = SpoolWriter(folder, MAX_BYTES, segment_bytes=1), SpoolReader(folder)
    for number in (1, 2):
        writer.append([message(number)])

    list_segments = Journal.segments

    def list_before_removal(journal: Journal) -> list[int]:
        numbers = list_segments(journal)
        monkeypatch.setattr(Journal, "segments", list_segments)
        read_all(reader)
        assert len(segments(folder)) == 1
        return numbers

    monkeypatch.setattr(Journal, "segments", list_before_removal)
    writer.append([message(3)])

    assert read_all(reader) == [message(3)]


def test_a_disk_that_stays_full_gets_no_further_files(
    folder: Path, disk_that_fills_up: Callable[[int], None]
) -> None:
    writer = SpoolWriter(folder, MAX_BYTES, segment_bytes=1)
    writer.append([message(1)])
    disk_that_fills_up(5)
    for _ in range(3):
        with pytest.raises(OSError, match="File too large"):
            writer.append([message(2)])
    assert len(segments(folder)) == 1

    disk_that_fills_up(MAX_BYTES)
    writer.append([message(3)])
    assert read_all(SpoolReader(folder)) == [message(1), message(3)]


def test_a_segment_whose_name_may_be_lost_gets_no_messages(
    folder: Path, writer: SpoolWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Path) -> None:
        raise OSError(errno.EIO, "the disk fails")

    with monkeypatch.context() as patch:
        patch.setattr(journal_writer, "sync_folder", fail)
        with pytest.raises(OSError, match="the disk fails"):
            writer.append([message(1)])
    assert segments(folder) == []

    writer.append([message(2)])
    assert read_all(SpoolReader(folder)) == [message(2)]


def test_the_backlog_says_how_much_waits_and_since_when(folder: Path) -> None:
    assert measure_backlog(folder) == SpoolBacklog()
    writer = SpoolWriter(folder, MAX_BYTES, segment_bytes=200)
    writer.append([message(1)])
    writer.append([message(2)])
    writer.append([message(3)])
    reader = SpoolReader(folder)
    entry = reader.take()
    assert entry is not None
    reader.set_aside(entry)

    backlog = measure_backlog(folder)
    assert backlog == SpoolBacklog(waiting=2, failed=1, oldest_since=message(2).received_at)
    assert backlog.oldest_seconds(message(2).received_at + 7) == 7


def test_what_is_set_aside_is_a_file_that_can_be_learned(folder: Path, writer: SpoolWriter) -> None:
    writer.append([message(1)])
    reader = SpoolReader(folder)
    entry = reader.take()
    assert entry is not None
    reader.set_aside(entry)

    (kept,) = (folder / "failed" / "spam").iterdir()
    assert kept.read_bytes() == message(1).content
    assert reader.take() is None


def test_too_many_failed_messages_stop_the_spool_and_lose_nothing(folder: Path, writer: SpoolWriter) -> None:
    writer.append([message(1)])
    failed = folder / "failed" / "spam"
    failed.mkdir(parents=True)
    for number in range(MAX_FAILED):
        (failed / str(number)).touch()
    reader = SpoolReader(folder)
    entry = reader.take()
    assert entry is not None

    with pytest.raises(OSError, match="look at them"):
        reader.set_aside(entry)
    assert read_all(SpoolReader(folder)) == [message(1)]


def test_failed_messages_have_no_more_bytes_than_the_spool_may_have(folder: Path, writer: SpoolWriter) -> None:
    writer.append([message(number, b"x" * 1000) for number in (1, 2, 3)])
    reader = SpoolReader(folder, max_failed_bytes=1500)
    first = reader.take()
    assert first is not None
    reader.set_aside(first)
    second = reader.take()
    assert second is not None

    with pytest.raises(OSError, match="with 1 messages: look at them"):
        reader.set_aside(second)
    (kept,) = (folder / "failed" / "spam").iterdir()
    kept.unlink()
    reader.set_aside(second)
    assert read_all(reader) == [message(3, b"x" * 1000)]


def test_attempts_that_do_not_end_are_counted_and_others_are_not(folder: Path, writer: SpoolWriter) -> None:
    writer.append([message(1)])
    SpoolReader(folder).take()
    SpoolReader(folder).take()  # two processes have died

    reader = SpoolReader(folder)
    entry = reader.take()
    assert entry is not None
    assert entry.tries == 2
    reader.put_back(entry)
    entry = reader.take()
    assert entry is not None
    assert entry.tries == 2
    reader.count_fault(entry)

    entry = SpoolReader(folder).take()
    assert entry is not None
    assert entry.tries == 3


def test_only_the_first_attempt_of_this_process_at_a_new_message_is_no_repetition(
    folder: Path, writer: SpoolWriter
) -> None:
    writer.append([message(1)])
    reader = SpoolReader(folder)
    writer.append([message(2)])

    entry = reader.take()
    assert entry is not None
    assert entry.may_be_repeated  # by whoever had the spool before
    reader.finish(entry)
    entry = reader.take()
    assert entry is not None
    assert not entry.may_be_repeated
    reader.put_back(entry)
    entry = reader.take()
    assert entry is not None
    assert entry.may_be_repeated


def test_a_writer_waits_for_another_one(folder: Path, writer: SpoolWriter) -> None:
    writer.append([message(1)])
    child = os.fork()
    if child == 0:
        SpoolWriter(folder, MAX_BYTES).append([message(2)])
        os._exit(0)
    with Journal(folder).locked():
        seen = measure_backlog(folder).waiting
    assert os.waitpid(child, 0)[1] == 0

    assert seen in {1, 2}
    assert read_all(SpoolReader(folder)) == [message(1), message(2)]


class CrashingSpool(RuleBasedStateMachine):
    """Writers and readers that die between any two operations, and within a write at any byte."""

    def __init__(self) -> None:
        super().__init__()
        self.temporary = TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None)  # a sync costs nothing there
        self.folder = Path(self.temporary.name) / "spool"
        self.journal = Journal(self.folder)
        self.writers = [self.new_writer(), self.new_writer()]
        self.reader = SpoolReader(self.folder)
        self.acknowledged: list[SpooledMessage] = []
        self.learned: list[SpooledMessage] = []
        self.numbers = 0

    def new_writer(self) -> SpoolWriter:
        return SpoolWriter(self.folder, MAX_BYTES, segment_bytes=400)

    def new_messages(self, sizes: list[int]) -> list[SpooledMessage]:
        self.numbers += len(sizes)
        return [message(self.numbers - index, b"x" * size) for index, size in enumerate(sizes)]

    @rule(which=st.integers(0, 1), sizes=st.lists(st.integers(1, 300), min_size=1, max_size=4))
    def append(self, which: int, sizes: list[int]) -> None:
        messages = self.new_messages(sizes)
        self.writers[which].append(messages)
        self.acknowledged += messages

    @rule(
        which=st.integers(0, 1),
        sizes=st.lists(st.integers(1, 300), min_size=1, max_size=4),
        room=st.integers(0, 600),
    )
    def append_while_the_disk_fills_up(self, which: int, sizes: list[int], room: int) -> None:
        messages = self.new_messages(sizes)
        used = self.journal.path(self.segments[-1]).stat().st_size if self.segments else 0
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (used + room, hard))
        try:
            self.writers[which].append(messages)
        except OSError:
            return  # refused: the spool has nothing of it
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        self.acknowledged += messages

    @rule(which=st.integers(0, 1), size=st.integers(1, 300), part=st.floats(0, 1))
    def die_while_appending(self, which: int, size: int, part: float) -> None:
        before = {number: self.journal.path(number).stat().st_size for number in self.segments}
        (lost,) = self.new_messages([size])
        self.writers[which].append([lost])
        number = self.segments[-1]
        path = self.journal.path(number)
        start, end = before.get(number, 0), path.stat().st_size
        cut = start + round(part * (end - start))
        os.truncate(path, cut)
        self.writers[which] = self.new_writer()
        if cut == end:
            self.acknowledged.append(lost)  # it is there as a whole, and may be learned: nobody can know

    @property
    def segments(self) -> list[int]:
        return self.journal.segments()

    @rule()
    def learn(self) -> None:
        if (entry := self.reader.take()) is not None:
            assert entry.message not in self.learned or entry.may_be_repeated
            self.learned.append(entry.message)
            self.reader.finish(entry)

    @rule(learns=st.booleans())
    def die_while_learning(self, learns: bool) -> None:
        if (entry := self.reader.take()) is not None and learns:
            assert entry.message not in self.learned or entry.may_be_repeated
            self.learned.append(entry.message)
        self.reader = SpoolReader(self.folder)

    @rule()
    def fail(self) -> None:
        if (entry := self.reader.take()) is not None:
            self.reader.count_fault(entry)

    @rule()
    def tidy(self) -> None:
        self.reader.remove_learned()

    @rule()
    def the_machine_dies(self) -> None:
        self.journal.write_position(replace(self.journal.read_position(), offset=len(FIRST_LINE), tries=0))
        self.reader = SpoolReader(self.folder)
        self.writers = [self.new_writer(), self.new_writer()]

    @invariant()
    def each_is_learned_in_its_turn(self) -> None:
        first_times = list(dict.fromkeys(self.learned))
        assert first_times == self.acknowledged[: len(first_times)]

    def teardown(self) -> None:
        reader = SpoolReader(self.folder)
        self.learned += read_all(reader)
        assert list(dict.fromkeys(self.learned)) == self.acknowledged
        reader.remove_learned()
        assert measure_backlog(self.folder) == SpoolBacklog()
        assert self.segments == []
        self.temporary.cleanup()


TestCrashingSpool = CrashingSpool.TestCase
TestCrashingSpool.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
