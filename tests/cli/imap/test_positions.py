"""Up to where folders are learned: one file for each, written after the lessons."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbstream.cli.imap.positions import LearnedPositions, PositionFiles
from nbstream.cli.message_files import FolderPosition

JUNK, INBOX = "imaps://ann@mail.example.org/Junk", "imaps://ann@mail.example.org/INBOX"


def position(uid: int, folder: str = JUNK, uid_validity: int = 1) -> FolderPosition:
    return FolderPosition(folder, uid_validity, uid)


def test_a_position_is_that_of_a_folder_a_label_and_a_model(tmp_path: Path) -> None:
    files = PositionFiles(tmp_path, "default", "spam")
    assert files.read(JUNK) is None

    files.write(position(1))
    files.write(position(7))

    assert files.read(JUNK) == position(7)
    assert files.read(INBOX) is None
    assert PositionFiles(tmp_path, "default", "ham").read(JUNK) is None
    assert PositionFiles(tmp_path, "other", "spam").read(JUNK) is None
    assert [path.suffix for path in (tmp_path / "imap").iterdir()] == [".json"]
    assert (tmp_path / "imap").stat().st_mode & 0o777 == 0o700


def test_nothing_is_written_where_a_link_leads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = PositionFiles(tmp_path, "default", "spam")
    files.write(position(1))
    (file,) = (tmp_path / "imap").iterdir()
    other = tmp_path / "other"
    other.write_text("stays")
    file.with_suffix(".guessed").symlink_to(other)
    monkeypatch.setattr("secrets.token_hex", lambda _size: "guessed")

    with pytest.raises(FileExistsError):
        files.write(position(2))

    assert other.read_text() == "stays"
    assert files.read(JUNK) == position(1)


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", "1", '{"uid_validity": 1, "uid": "7"}', "\0"])
def test_a_file_that_cannot_be_read_stands_for_no_position(tmp_path: Path, content: str) -> None:
    files = PositionFiles(tmp_path, "default", "spam")
    files.write(position(7))
    (file,) = (tmp_path / "imap").iterdir()
    file.write_text(content)

    assert files.read(JUNK) is None


def test_what_is_learned_is_written_and_what_is_under_way_is_not(tmp_path: Path) -> None:
    files = PositionFiles(tmp_path, "default", "spam")
    positions = LearnedPositions(files)
    for place in (position(1), None, position(3), position(5, INBOX), position(4)):
        positions.begin(place)
    for _ in range(4):
        positions.finish(is_learned=True)

    positions.save()

    assert files.read(JUNK) == position(3)
    assert files.read(INBOX) == position(5, INBOX)


def test_the_next_run_tries_again_what_was_not_learned(tmp_path: Path) -> None:
    files = PositionFiles(tmp_path, "default", "spam")
    positions = LearnedPositions(files)
    for uid, is_learned in ((1, True), (2, False), (3, True)):
        positions.begin(position(uid))
        positions.finish(is_learned=is_learned)

    positions.save()

    assert files.read(JUNK) == position(1)


def test_a_folder_that_cannot_be_written_to_is_said_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "imap").touch()
    positions = LearnedPositions(PositionFiles(tmp_path, "default", "spam"))
    for uid in (1, 2):
        positions.begin(position(uid))
        positions.finish(is_learned=True)
        positions.save()

    assert capsys.readouterr().err == (
        f"nbstream: {tmp_path / 'imap'}: File exists; the next run reads all messages of the folders again\n"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["imap"]
