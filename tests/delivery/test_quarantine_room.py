"""The room of the quarantine: there is a limit in all and for each user."""

from __future__ import annotations

import asyncio
import errno
import os
import pathlib

import pytest

from nbstream.delivery import quarantine
from nbstream.delivery.next_hop import Envelope, SmtpPath, SmtpReply
from nbstream.delivery.quarantine import (
    Quarantine,
    QuarantineNote,
    QuarantinePart,
    QuarantineUsage,
)
from nbstream.delivery.settings import QuarantineSettings

NO_ROOM = SmtpReply(452, "4.3.1 Insufficient system storage")
LARGE = b"Subject: x\r\n\r\n" + b"an attachment of some size\r\n" * 40_000  # 1.1 MB
SMALL, BLOCK = b"Subject: x\r\n\r\nhello\r\n", 4096


def part(content: bytes, *recipients: str, message_id: str = "a" * 24) -> QuarantinePart:
    envelope = Envelope(SmtpPath("shop@example.net"), tuple(map(SmtpPath, recipients)))
    return QuarantineNote(message_id, "spam", 0.97, "", envelope), b"X-Nbstream: spam\n", content


def disk_bytes(folder: pathlib.Path) -> int:
    """What the files take."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def counted_bytes(folder: pathlib.Path) -> int:
    """What the files count, in blocks."""
    return sum(-(-path.stat().st_size // BLOCK) * BLOCK for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("failing", range(1, 4))
async def test_a_failure_leaves_no_message(
    failing: int, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Quarantine(tmp_path)
    assert await folder.write([part(SMALL, "ann@example.org")]) is None
    before, calls, fsync = disk_bytes(tmp_path), iter(range(1, 99)), os.fsync

    def fail(descriptor: int) -> None:
        if next(calls) == failing:
            raise OSError(errno.ENOSPC, "full")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", fail)
    assert await folder.write([part(LARGE, "ann@example.org"), part(LARGE, "bob@example.org")]) == NO_ROOM
    monkeypatch.undo()

    assert disk_bytes(tmp_path) == before
    assert folder.usage().total == counted_bytes(tmp_path)


async def test_a_message_without_room_in_all_is_put_off_and_nothing_that_waits_is_touched(
    tmp_path: pathlib.Path,
) -> None:
    refusals: list[None] = []
    section = QuarantineSettings(max_bytes=8 * BLOCK)
    folder = Quarantine(tmp_path, section, on_full=lambda: refusals.append(None))
    for number in range(8):
        assert await folder.write([part(SMALL, f"user{number}@example.org")]) is None
    before = folder.messages()

    assert await folder.write([part(SMALL, "cid@example.org")]) == NO_ROOM

    assert folder.messages() == before
    assert len(refusals) == 1
    assert folder.usage().total == counted_bytes(tmp_path)
    quarantine.remove(before[1])
    assert await Quarantine(tmp_path, section).write([part(SMALL, "cid@example.org")]) is None


async def test_a_message_without_room_for_one_of_its_users_is_put_off_for_all_spellings_of_them(
    tmp_path: pathlib.Path,
) -> None:
    section = QuarantineSettings(max_bytes=16 * BLOCK)
    folder = Quarantine(tmp_path, section, user_of=lambda address: address.lower().replace("+shop", ""))
    for recipient in ("ann@example.org", "Ann+shop@example.org"):
        assert await folder.write([part(SMALL, recipient)]) is None

    for recipients in (["ANN@example.org"], ["bob@example.org", "ann@example.org"]):
        assert await folder.write([part(SMALL, *recipients)]) == NO_ROOM
    assert await folder.write([part(SMALL, "bob@example.org")]) is None
    assert folder.usage() == QuarantineUsage(counted_bytes(tmp_path), 2 * BLOCK)


async def test_a_user_for_whom_nothing_waits_has_room_for_a_message_that_is_larger_than_an_eighth(
    tmp_path: pathlib.Path,
) -> None:
    folder = Quarantine(tmp_path, QuarantineSettings(max_bytes=4 * len(LARGE)))

    assert await folder.write([part(LARGE, "ann@example.org")]) is None

    assert await folder.write([part(SMALL, "ann@example.org")]) == NO_ROOM
    assert await folder.write([part(SMALL, "bob@example.org")]) is None


async def test_messages_at_the_same_time_do_not_go_over_the_limit_together(tmp_path: pathlib.Path) -> None:
    folder = Quarantine(tmp_path, QuarantineSettings(max_bytes=8 * BLOCK))
    parts = [part(SMALL, f"user{number}@example.org") for number in range(20)]

    replies = await asyncio.gather(*(folder.write([message]) for message in parts))

    assert replies.count(None) == 8
    assert disk_bytes(tmp_path) <= 8 * BLOCK


async def test_the_room_is_counted_again_by_whoever_opens_the_quarantine(tmp_path: pathlib.Path) -> None:
    folder = Quarantine(tmp_path)
    assert await folder.write([part(LARGE, "ann@example.org"), part(LARGE, "bob@example.org")]) is None
    assert await folder.write([part(SMALL, "ann@example.org")]) is None

    assert Quarantine(tmp_path).usage() == folder.usage()
    assert folder.usage().total == counted_bytes(tmp_path)
    for message in folder.messages():
        quarantine.remove(message)
    assert Quarantine(tmp_path).usage() == folder.usage() == QuarantineUsage(0, 0)
