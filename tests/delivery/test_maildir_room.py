"""The room of a Maildir: what the file system says now."""

from __future__ import annotations

import asyncio
import os
import pathlib
import threading

import pytest

from nbstream.delivery import maildir as maildir_module
from nbstream.delivery.maildir import NO_ROOM, MaildirRoom, create_maildir


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
