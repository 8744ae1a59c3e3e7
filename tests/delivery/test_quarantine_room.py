"""The room of the quarantine: a large body is on the disk once, and there is a limit in all and for each user."""

from __future__ import annotations

import asyncio
import errno
import os
import pathlib
import signal
import sys
import time

import pytest

from nbstream.delivery import quarantine
from nbstream.delivery.next_hop import Envelope, SmtpPath, SmtpReply
from nbstream.delivery.quarantine import (
    Quarantine,
    QuarantinedMessage,
    QuarantineNote,
    QuarantinePart,
    QuarantineUsage,
)
from nbstream.delivery.settings import QuarantineSettings

NO_ROOM = SmtpReply(452, "4.3.1 Insufficient system storage")
LARGE = b"Subject: x\r\n\r\n" + b"an attachment of some size\r\n" * 40_000  # 1.1 MB
SMALL = b"Subject: x\r\n\r\nhello\r\n"


def part(content: bytes, *recipients: str, message_id: str = "a" * 24) -> QuarantinePart:
    envelope = Envelope(SmtpPath("shop@example.net"), tuple(map(SmtpPath, recipients)))
    return QuarantineNote(message_id, "spam", 0.97, "", envelope), b"X-Nbstream: spam\n", content


def disk_bytes(folder: pathlib.Path) -> int:
    """What the files take: a file with several names counts once."""
    return sum(file_sizes(folder).values())


def counted_bytes(folder: pathlib.Path) -> int:
    """What the files count: those of messages in blocks, those of bodies in bytes."""
    of_bodies = file_sizes(folder / "bodies")
    return sum(
        size if inode in of_bodies else -(-size // 4096) * 4096 for inode, size in file_sizes(folder).items()
    )


def file_sizes(folder: pathlib.Path) -> dict[int, int]:
    return {status.st_ino: status.st_size for p in folder.rglob("*") if p.is_file() for status in [p.stat()]}


def bodies(folder: pathlib.Path) -> list[pathlib.Path]:
    return sorted(path for path in (folder / "bodies").rglob("*") if path.is_file())


def content_of(message: QuarantinedMessage) -> bytes:
    return quarantine.read_message(message)[1].removeprefix(b"X-Nbstream: spam\r\n")


async def test_a_large_mail_to_fifty_users_is_on_the_disk_once_in_one_transaction_or_in_many(
    tmp_path: pathlib.Path,
) -> None:
    folder = Quarantine(tmp_path)
    assert await folder.write([part(LARGE, f"user{number}@example.org") for number in range(25)]) is None
    for number in range(25, 50):  # as over LMTP, or when the mail server sends to one after the other
        delivered_to = f"Delivered-To: user{number}@example.org\r\n".encode()
        assert await Quarantine(tmp_path).write([part(delivered_to + LARGE, f"user{number}@example.org")]) is None

    messages = folder.messages()
    assert len(messages) == 50
    assert disk_bytes(tmp_path) < 1.1 * len(LARGE)
    assert all(content_of(message).endswith(LARGE) for message in messages)
    assert quarantine.read_subject(messages[0])[1] == "x"


async def test_a_body_is_there_until_its_last_message_is_removed(tmp_path: pathlib.Path) -> None:
    folder = Quarantine(tmp_path)
    assert await folder.write([part(LARGE, "ann@example.org"), part(LARGE, "bob@example.org")]) is None
    first, second = folder.messages()

    quarantine.remove(first)
    assert content_of(second) == LARGE

    quarantine.remove(quarantine.mark_in_doubt(second))
    assert bodies(tmp_path) == []
    assert list((tmp_path / "bodies").iterdir()) == []


async def test_expired_messages_take_their_bodies_with_them(tmp_path: pathlib.Path) -> None:
    folder = Quarantine(tmp_path)
    assert await folder.write([part(LARGE, "ann@example.org")]) is None
    (message,) = folder.messages()
    name = f"{int(time.time()) - 40 * 86_400}.{message.path.name.partition('.')[2]}"
    (body,) = bodies(tmp_path)
    body.rename(body.with_name(name))
    message.path.rename(message.path.with_name(name))

    assert folder.remove_expired(30).removed == 1
    assert disk_bytes(tmp_path) == 0


@pytest.mark.parametrize("code", [errno.EMLINK, errno.EPERM, errno.EOPNOTSUPP])
async def test_without_hard_links_each_message_has_a_copy(
    code: int, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_paths: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "link", refuse)
    folder = Quarantine(tmp_path)
    assert await folder.write([part(LARGE, "ann@example.org"), part(LARGE, "bob@example.org")]) is None

    assert [content_of(message) for message in folder.messages()] == [LARGE, LARGE]
    assert len(bodies(tmp_path)) == 2


@pytest.mark.parametrize("failing", range(1, 7))
async def test_a_failure_leaves_neither_message_nor_body(
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


_WRITE_AND_REMOVE = """
import asyncio, pathlib, sys
from nbstream.delivery import maildir, quarantine
from nbstream.delivery.quarantine import Quarantine
from tests.delivery.test_quarantine_room import LARGE, part

async def run():
    folder = Quarantine(pathlib.Path(sys.argv[1]))
    while True:
        await folder.write([part(LARGE, "ann@example.org"), part(LARGE, "bob@example.org")])
        print("written", flush=True)
        for message in folder.messages()[:-2]:
            quarantine.remove(message)

asyncio.run(run())
"""


async def test_no_kill_takes_the_body_of_a_message_and_what_is_left_over_is_removed(
    tmp_path: pathlib.Path,
) -> None:
    folder = Quarantine(tmp_path)
    for round_number in range(5):
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", _WRITE_AND_REMOVE, str(tmp_path), stdout=asyncio.subprocess.PIPE
        )
        assert process.stdout is not None
        for _ in range(1 + round_number):
            await process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        await process.wait()

        messages = folder.messages()
        assert messages
        assert all(content_of(message) == LARGE for message in messages)

    old = int(time.time()) - 7200
    for path in [*bodies(tmp_path), *(tmp_path / "tmp").iterdir()]:
        if not any(path.name == message.path.name for message in messages):
            path.rename(path.with_name(f"{old}.{path.name.partition('.')[2]}"))
    folder.remove_expired(None)
    assert {path.name for path in bodies(tmp_path)} == {message.path.name for message in folder.messages()}
    assert list((tmp_path / "tmp").iterdir()) == []


async def test_a_message_without_room_in_all_is_put_off_and_nothing_that_waits_is_touched(
    tmp_path: pathlib.Path,
) -> None:
    refusals: list[None] = []
    section = QuarantineSettings(max_bytes=3_000_000)
    folder = Quarantine(tmp_path, section, on_full=lambda: refusals.append(None))
    others = [LARGE.replace(b"some", str(number).encode() * 4) for number in range(3)]
    for number in (0, 1):
        assert await folder.write([part(others[number], "ann@example.org")]) is None
    assert await folder.write([part(others[0], "bob@example.org")]) is None  # its body is there already
    before = folder.messages()

    assert await folder.write([part(others[2], "cid@example.org")]) == NO_ROOM

    assert folder.messages() == before
    assert len(refusals) == 1
    assert folder.usage().total == counted_bytes(tmp_path)
    quarantine.remove(before[1])
    assert await Quarantine(tmp_path, section).write([part(others[2], "cid@example.org")]) is None


async def test_a_message_without_room_for_one_of_its_users_is_put_off_for_all_spellings_of_them(
    tmp_path: pathlib.Path,
) -> None:
    section = QuarantineSettings(max_user_bytes=3_000_000)
    folder = Quarantine(tmp_path, section, user_of=lambda address: address.lower().replace("+shop", ""))
    for recipient in ("ann@example.org", "Ann+shop@example.org"):
        assert await folder.write([part(LARGE, recipient)]) is None

    for recipients in (["ANN@example.org"], ["bob@example.org", "ann@example.org"]):
        assert await folder.write([part(LARGE, *recipients)]) == NO_ROOM
    assert await folder.write([part(LARGE, "bob@example.org")]) is None
    assert folder.usage() == QuarantineUsage(counted_bytes(tmp_path), folder.usage().largest_user)
    assert 2 * len(LARGE) < folder.usage().largest_user < 3_000_000


async def test_messages_at_the_same_time_do_not_go_over_the_limit_together(tmp_path: pathlib.Path) -> None:
    folder = Quarantine(tmp_path, QuarantineSettings(max_bytes=3_000_000))
    contents = [LARGE.replace(b"some", f"{number:04}".encode()) for number in range(20)]

    replies = await asyncio.gather(*(folder.write([part(content, "ann@example.org")]) for content in contents))

    assert replies.count(None) == 2
    assert disk_bytes(tmp_path) <= 3_000_000


async def test_the_room_is_counted_again_by_whoever_opens_the_quarantine(tmp_path: pathlib.Path) -> None:
    folder = Quarantine(tmp_path)
    assert await folder.write([part(LARGE, "ann@example.org"), part(LARGE, "bob@example.org")]) is None
    assert await folder.write([part(SMALL, "ann@example.org")]) is None

    assert Quarantine(tmp_path).usage() == folder.usage()
    assert folder.usage().total == counted_bytes(tmp_path)
    for message in folder.messages():
        quarantine.remove(message)
    assert Quarantine(tmp_path).usage() == folder.usage() == QuarantineUsage(0, 0)
