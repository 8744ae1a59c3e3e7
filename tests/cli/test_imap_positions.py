"""Up to where folders are learned: one row for each, written after the lessons."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from nbstream.cli.imap_positions import FolderPositions, LearnedPositions
from nbstream.cli.message_files import FolderPosition
from nbstream.store.state_file import StateFile

JUNK, INBOX = "imaps://ann@mail.example.org/Junk", "imaps://ann@mail.example.org/INBOX"


@pytest.fixture
def state(tmp_path: Path) -> Iterator[StateFile]:
    with closing(StateFile(tmp_path / "state")) as state:
        yield state


@pytest.fixture
def stored(state: StateFile) -> FolderPositions:
    return FolderPositions(state, "default", "spam")


def position(uid: int, folder: str = JUNK, uid_validity: int = 1) -> FolderPosition:
    return FolderPosition(folder, uid_validity, uid)


def test_a_position_is_that_of_a_folder_a_label_and_a_model(state: StateFile, stored: FolderPositions) -> None:
    assert stored.read(JUNK) is None
    assert not state.path.exists()

    stored.write([position(1)])
    stored.write([position(7)])

    assert stored.read(JUNK) == position(7)
    assert stored.read(INBOX) is None
    assert FolderPositions(state, "default", "ham").read(JUNK) is None
    assert FolderPositions(state, "other", "spam").read(JUNK) is None


def test_a_file_that_cannot_be_read_stands_for_no_position(state: StateFile, stored: FolderPositions) -> None:
    stored.write([position(7)])
    state.close()
    state.path.write_bytes(b"no database")

    assert stored.read(JUNK) is None


def test_what_is_learned_is_written_and_what_is_under_way_is_not(stored: FolderPositions) -> None:
    positions = LearnedPositions(stored)
    for place in (position(1), None, position(3), position(5, INBOX), position(4)):
        positions.begin(place)
    for _ in range(4):
        positions.finish(is_learned=True)

    positions.save()

    assert stored.read(JUNK) == position(3)
    assert stored.read(INBOX) == position(5, INBOX)


def test_the_next_run_tries_again_what_was_not_learned(stored: FolderPositions) -> None:
    positions = LearnedPositions(stored)
    for uid, is_learned in ((1, True), (2, False), (3, True)):
        positions.begin(position(uid))
        positions.finish(is_learned=is_learned)

    positions.save()

    assert stored.read(JUNK) == position(1)
