"""The room of a Maildir: what the file system says now, and what a file that was not written makes doubtful."""

from __future__ import annotations

import asyncio
import errno
import os
import pathlib
import threading

import pytest

from nbstream.delivery import maildir as maildir_module
from nbstream.delivery.maildir import NO_ROOM, MaildirDraft, MaildirRoom, create_maildir, unique_name, write_drafts


@pytest.fixture
def maildir(tmp_path: pathlib.Path) -> pathlib.Path:
    create_maildir(tmp_path / "m")
    return tmp_path / "m"


def statvfs(**changed: int) -> os.statvfs_result:
    """What a file system with room says, but for some values."""
    values = {
        "f_bsize": 4096,
        "f_frsize": 4096,
        "f_blocks": 1 << 20,
        "f_bfree": 1 << 19,
        "f_bavail": 1 << 19,
        "f_files": 1 << 20,
        "f_ffree": 1 << 19,
        "f_favail": 1 << 19,
        "f_flag": 0,
        "f_namemax": 255,
    }
    return os.statvfs_result({**values, **changed}.values())


def draft(maildir: pathlib.Path, room: MaildirRoom) -> MaildirDraft:
    return MaildirDraft(maildir, unique_name(), b"X: y\n", b"text\r\n" * 1000, room)


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        (statvfs(), None),
        (statvfs(f_bavail=4095), NO_ROOM),
        (statvfs(f_bavail=4096), None),
        (statvfs(f_favail=99), NO_ROOM),
        (statvfs(f_files=0, f_favail=0), None),
    ],
    ids=["room", "no bytes", "16 MiB", "no inodes", "inodes are not counted"],
)
async def test_a_file_system_without_bytes_or_inodes_is_a_problem(
    maildir: pathlib.Path, monkeypatch: pytest.MonkeyPatch, said: os.statvfs_result, problem: str | None
) -> None:
    monkeypatch.setattr(os, "statvfs", lambda _: said)

    assert await MaildirRoom(maildir).problem() == problem


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
async def test_after_a_file_that_did_not_fit_it_is_a_problem_until_such_a_file_would_fit(
    maildir: pathlib.Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    room = MaildirRoom(maildir)
    synced: list[int] = []

    def fail(descriptor: int) -> None:
        synced.append(os.fstat(descriptor).st_size)
        raise OSError(code, os.strerror(code))

    assert await room.problem() is None
    with monkeypatch.context() as full:
        full.setattr(os, "fsync", fail)
        assert await write_drafts([draft(maildir, room)]) is not None

        assert [await room.problem() for _ in range(2)] == [NO_ROOM] * 2

    assert await room.problem() is None
    assert synced == [5005, 6005, 6005]  # the file has LF line ends
    assert list(maildir.rglob("tmp/*")) == []


async def test_a_file_system_that_does_not_answer_is_asked_once(
    maildir: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, answer = [], threading.Event()

    def hang(_path: pathlib.Path) -> os.statvfs_result:
        calls.append(1)
        answer.wait()
        return statvfs()

    monkeypatch.setattr(os, "statvfs", hang)
    monkeypatch.setattr(maildir_module, "_ANSWER_SECONDS", 0.01)
    room = MaildirRoom(maildir)

    problems = await asyncio.gather(*(room.problem() for _ in range(20)))

    assert problems == ["the file system does not respond"] * 20
    assert calls == [1]
    answer.set()
    monkeypatch.setattr(maildir_module, "_ANSWER_SECONDS", 20)
    assert await room.problem() is None
