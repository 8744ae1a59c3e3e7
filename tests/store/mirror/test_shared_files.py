"""Shared counts: one writer, readers that go over to the next file, and nothing left of a killed writer."""

from __future__ import annotations

import errno
import mmap
import os
import stat
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from nbstream.bayes.counts import NO_CHANGE, ChangePosition, CountsChange, Totals
from nbstream.bayes.table_counts import TableCounts
from nbstream.store.mirror.shared_counts import (
    NoSharedMemory,
    SharedCounts,
    SharedFile,
    SharedView,
    counts_identity,
)
from tests.engine.native import table_functions

IDENTITY = counts_identity("model", 1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "counts"


@pytest.fixture
def writer(folder: Path) -> Iterator[SharedCounts]:
    shared = SharedCounts(table_functions(), folder)
    assert shared.try_to_write()
    yield shared
    shared.stop_writing()


@pytest.fixture
def reader(folder: Path) -> SharedCounts:
    return SharedCounts(table_functions(), folder)


def change(number: int) -> CountsChange:
    """A change that gives 300 new tokens the number, and as many known ones."""
    tokens = [b"known %d" % n for n in range(300)] + [b"%d of %d" % (n, number) for n in range(300)]
    columns = [(column, np.full(600, number)) for column in (0, 1)]
    return CountsChange(
        tokens, columns, Totals((number, 0), (1, 1), 1), ChangePosition(number, 0, number), NO_CHANGE
    )


def published(shared: SharedCounts, changes: int = 1) -> TableCounts:
    counts = shared.new_counts(0, IDENTITY)
    for number in range(1, changes + 1):
        counts.apply(change(number))
    counts.publish()
    return counts


def shown(view: SharedView) -> int:
    """The number of the change that the view shows, which is the same in all that it shows."""
    rows, totals = view.look_up_with_totals([b"known %d" % n for n in range(300)])
    number = totals.messages[0]
    assert (rows == number).all()
    return number


def test_one_writes_and_gives_the_lock_back(writer: SharedCounts, reader: SharedCounts) -> None:
    assert writer.try_to_write()
    assert not reader.try_to_write()
    writer.stop_writing()
    assert reader.try_to_write()
    assert not writer.try_to_write()
    reader.stop_writing()


def test_nothing_is_seen_before_it_is_published(writer: SharedCounts, reader: SharedCounts) -> None:
    counts = writer.new_counts(0, IDENTITY)
    counts.apply(change(1))
    assert reader.view(IDENTITY) is None
    counts.publish()
    view = reader.view(IDENTITY)
    assert view is not None
    assert (shown(view), view.position, view.snapshot()[0]) == (1, counts.position, counts.snapshot()[0])


def test_a_view_follows_the_writer_through_all_files(
    writer: SharedCounts, reader: SharedCounts, folder: Path
) -> None:
    counts = published(writer)
    view = reader.view(IDENTITY)
    assert view is not None
    inodes = []
    for number in range(2, 40):
        counts.apply(change(number))
        assert shown(view) == number
        inodes.append((folder / "current").stat().st_ino)
        assert {file.name for file in folder.iterdir()} == {"current", "writer.lock"}
    assert sum(before != after for before, after in pairwise(inodes)) > 3


def test_a_view_keeps_what_it_has_where_the_next_file_is_of_another_model(
    writer: SharedCounts, reader: SharedCounts
) -> None:
    published(writer)
    view = reader.view(IDENTITY)
    assert view is not None
    other = writer.new_counts(0, counts_identity("other", 1))
    other.publish()
    assert shown(view) == 1
    assert view.is_superseded
    assert reader.view(IDENTITY) is None


def test_a_successor_goes_on_where_the_writer_was_killed(writer: SharedCounts, reader: SharedCounts) -> None:
    counts = published(writer, changes=3)
    counts.table.begin()
    counts.table.set_counts(b"known 1", np.array([[9, 9]]))
    writer.stop_writing()
    view = reader.view(IDENTITY)
    assert view is not None
    assert shown(view) == 3

    assert reader.try_to_write()
    successor = reader.take_over(IDENTITY)

    assert successor is not None
    assert successor.position == ChangePosition(3, 0, 3)
    successor.apply(change(4))
    assert shown(view) == 4
    reader.stop_writing()


def test_what_a_writer_left_between_link_and_name_does_no_harm(writer: SharedCounts, folder: Path) -> None:
    counts = published(writer)
    os.link(folder / "current", folder / "next")
    published(writer, changes=2)
    assert not counts.table.memory.buffer.closed
    assert {file.name for file in folder.iterdir()} == {"current", "writer.lock"}


def test_files_and_folder_are_for_their_user_alone(writer: SharedCounts, folder: Path) -> None:
    published(writer)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()} == {0o600}


@pytest.mark.parametrize("content", [b"", b"x", bytes(8192), b"nbtable1" + bytes(8192)])
def test_a_file_that_is_no_table_is_not_used(
    writer: SharedCounts, reader: SharedCounts, folder: Path, content: bytes
) -> None:
    (folder / "current").write_bytes(content)
    assert reader.view(IDENTITY) is None
    assert writer.take_over(IDENTITY) is None


def test_a_table_that_was_cut_is_not_used(writer: SharedCounts, reader: SharedCounts, folder: Path) -> None:
    published(writer)
    whole = (folder / "current").read_bytes()
    (folder / "cut").write_bytes(whole[: len(whole) // 2])
    (folder / "cut").replace(folder / "current")
    assert reader.view(IDENTITY) is None


def test_a_link_is_not_followed(writer: SharedCounts, reader: SharedCounts, folder: Path) -> None:
    published(writer)
    (folder / "current").rename(folder / "elsewhere")
    (folder / "current").symlink_to(folder / "elsewhere")
    assert reader.view(IDENTITY) is None


def test_memory_is_reserved_before_it_is_written_to(
    writer: SharedCounts, reader: SharedCounts, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = published(writer)
    view = reader.view(IDENTITY)
    assert view is not None

    def no_room(*_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", no_room)
    with pytest.raises(NoSharedMemory, match="No space left"):  # noqa: PT012 - any of the changes may be the one
        for number in range(2, 40):
            counts.apply(change(number))
    assert shown(view) == counts.totals.messages[0]


def test_a_folder_that_is_gone_gives_an_error(writer: SharedCounts, folder: Path) -> None:
    counts = published(writer)
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()
    assert not writer.uses(counts)
    with pytest.raises(NoSharedMemory):
        writer.new_counts(0, IDENTITY)


def test_a_reader_cannot_write(writer: SharedCounts, folder: Path) -> None:
    published(writer)
    memory = SharedFile.open_current(folder, writable=False)
    assert memory
    assert isinstance(memory.buffer, mmap.mmap)
    with pytest.raises(TypeError):
        memory.buffer[0] = 0
