"""The files of the quarantine: what stands beside a message, how it is found, and when it is removed."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import mailbox
import os
import pathlib
import re
import shutil
import stat
import threading
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nbstream.delivery import maildir, quarantine
from nbstream.delivery.next_hop import Envelope, SmtpPath, SmtpReply
from nbstream.delivery.quarantine import (
    Quarantine,
    QuarantineFile,
    QuarantineNote,
    QuarantineUsage,
)
from nbstream.delivery.settings import QuarantineSettings
from nbstream.errors import InputError, NotReleased, RelayUnavailable
from tests.harness.waiting import DEADLINE_SECONDS, until

A, B = "a" * 24, "ab" + "c" * 22
CONTENT = b"Subject: x\r\n\r\n.hello\r\n\r\n"
ENVELOPE = Envelope(
    SmtpPath("ann@a.test", ("SIZE=9", "BODY=8BITMIME")), (SmtpPath("bob@b.test"), SmtpPath("carol@c.test"))
)
DAY = 86_400


def note(message_id: str = A, envelope: Envelope = ENVELOPE) -> QuarantineNote:
    return QuarantineNote(message_id, "spam", 0.987, "*@b.test", envelope)


async def put(
    folder: Quarantine, message_id: str = A, content: bytes = CONTENT, envelope: Envelope = ENVELOPE
) -> QuarantineFile:
    before = {message.path for message in folder.messages()}
    assert await folder.write([(note(message_id, envelope), b"X-Nbstream: spam\n", content)]) is None
    (new,) = (message for message in folder.messages() if message.path not in before)
    return new


def aged(message: QuarantineFile, days: float) -> QuarantineFile:
    """The same message, as if it had come so many days ago."""
    name = f"{int(time.time() - days * DAY)}.{message.path.name.partition('.')[2]}"
    return QuarantineFile(
        message.id, message.at, message.path.rename(message.path.with_name(name)), message.in_doubt
    )


_ADDRESS = st.text(st.characters(codec=None), max_size=30).map(
    lambda text: text.encode("utf-8", "surrogatepass").decode("utf-8", "surrogateescape")
)
_PATH = st.builds(SmtpPath, _ADDRESS, st.lists(st.text(max_size=9), max_size=2).map(tuple))


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(_PATH, st.lists(_PATH, min_size=1, max_size=4), st.binary(max_size=40))
async def test_any_envelope_and_any_content_come_back(
    tmp_path: pathlib.Path, sender: SmtpPath, recipients: list[SmtpPath], body: bytes
) -> None:
    content = b"X: y\r\n\r\n" + body.replace(b"\r", b"").replace(b"\n", b"\r\n")
    envelope = Envelope(sender, tuple(recipients))

    message = await put(Quarantine(tmp_path), content=content, envelope=envelope)

    assert quarantine.read_message(message) == (note(envelope=envelope), b"X-Nbstream: spam\r\n" + content)
    message.path.unlink()


async def test_what_waits_follows_its_users(tmp_path: pathlib.Path) -> None:
    users = {"ann@x.example": "ann@x.example"}
    folder = Quarantine(tmp_path, user_of=users.__getitem__)
    message = await put(folder, envelope=Envelope(SmtpPath("a@x.example"), (SmtpPath("ann@x.example"),)))
    assert list(map(folder.message_at, folder.files_for("ann@x.example"))) == [message]

    users["ann@x.example"] = "ben@x.example"
    await folder.look_up_users_again()

    assert folder.users() == ["ben@x.example"]
    assert list(map(folder.message_at, folder.files_for("ben@x.example"))) == [message]


async def test_mail_is_written_while_the_users_of_what_waits_are_looked_up_again(tmp_path: pathlib.Path) -> None:
    looked_up, may_go_on = threading.Event(), threading.Event()
    may_go_on.set()

    def user_of(address: str) -> str:
        if address == "ann@x.example":
            looked_up.set()
            assert may_go_on.wait(DEADLINE_SECONDS)
        return address

    folder = Quarantine(tmp_path, user_of=user_of)
    await put(folder, envelope=Envelope(SmtpPath("a@x.example"), (SmtpPath("ann@x.example"),)))
    assert folder.users() == ["ann@x.example"]
    looked_up.clear()
    may_go_on.clear()

    look_up = asyncio.create_task(folder.look_up_users_again())
    await until(looked_up.is_set)
    await put(folder, B, envelope=Envelope(SmtpPath("a@x.example"), (SmtpPath("ben@x.example"),)))

    assert folder.users() == ["ann@x.example", "ben@x.example"]
    assert not look_up.done()
    may_go_on.set()
    await look_up
    assert sorted(folder.users()) == ["ann@x.example", "ben@x.example"]


async def test_the_quarantine_is_a_private_maildir(tmp_path: pathlib.Path) -> None:
    message = await put(Quarantine(tmp_path / "q"))

    (mail,) = mailbox.Maildir(tmp_path / "q", create=False)
    assert mail["Subject"] == "x"
    assert stat.S_IMODE(message.path.stat().st_mode) == 0o600
    assert {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "q").iterdir()} == {0o700}


async def test_messages_are_listed_by_the_beginning_of_their_id_oldest_first(tmp_path: pathlib.Path) -> None:
    folder = Quarantine(tmp_path)
    assert folder.messages() == []
    young, old = await put(folder, A), aged(await put(folder, B), 3)
    (tmp_path / "new" / "1.x.y").write_bytes(b"of somebody else")

    assert [message.path for message in folder.messages()] == [old.path, young.path]
    assert [message.id for message in folder.messages("ab")] == [B]
    assert folder.messages("abd") == []


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"Subject: x\n\n",
        b"X-Nbstream-Quarantine: {\n\n",
        b"X-Nbstream-Quarantine: []\n",
        b"X-Nbstream-Quarantine: {}\n",
        b"X-Nbstream-Quarantine: " + b"[" * 100_000 + b"\n",
    ],
)
async def test_a_file_that_is_not_ours_is_refused(tmp_path: pathlib.Path, content: bytes) -> None:
    message = await put(Quarantine(tmp_path))
    message.path.write_bytes(content)

    with pytest.raises(InputError, match="not written by nbstream"):
        quarantine.read_message(message)


@pytest.mark.parametrize(("key", "value"), [(b"probability", b"NaN"), (b"verdict", b'"other"')])
async def test_a_note_with_what_we_do_not_write_is_refused(
    tmp_path: pathlib.Path, key: bytes, value: bytes
) -> None:
    message = await put(Quarantine(tmp_path))
    content = message.path.read_bytes()
    changed = re.sub(rb'("%b": )[^,\r\n]+' % key, rb"\g<1>" + value, content, count=1)
    assert changed != content
    message.path.write_bytes(changed)

    with pytest.raises(InputError, match="not written by nbstream"):
        quarantine.read_message(message)


async def test_a_message_that_may_have_been_delivered_is_marked_in_the_folder(tmp_path: pathlib.Path) -> None:
    folder = Quarantine(tmp_path)
    first = await put(folder)

    marked = quarantine.mark_in_doubt(first)
    assert folder.messages() == [marked]
    assert marked.in_doubt
    assert quarantine.mark_in_doubt(marked) == marked

    assert quarantine.mark_waiting(marked) == first
    assert folder.messages() == [first]


async def test_a_message_is_locked_by_one_at_a_time_and_never_after_it_was_removed(tmp_path: pathlib.Path) -> None:
    message = await put(Quarantine(tmp_path))

    with (
        quarantine.locked(message),
        pytest.raises(NotReleased, match="is being released"),
        quarantine.locked(message),
    ):
        pass
    with quarantine.locked(message):
        message.path.unlink()
    with pytest.raises(NotReleased, match="by someone else"), quarantine.locked(message):
        pass


async def test_a_file_that_took_the_place_of_another_meanwhile_is_not_locked(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = await put(Quarantine(tmp_path))
    flock = fcntl.flock

    def lock_late(descriptor: int, mode: int) -> None:
        """Somebody else has released it for one recipient: a file of the same name waits for the other."""
        pathlib.Path(shutil.copy(message.path, tmp_path / "tmp")).replace(message.path)
        flock(descriptor, mode)

    monkeypatch.setattr(fcntl, "flock", lock_late)
    with pytest.raises(NotReleased, match="just released"), quarantine.locked(message):
        pass


async def test_old_messages_are_removed_and_counted(tmp_path: pathlib.Path) -> None:
    folder = Quarantine(tmp_path, QuarantineSettings(days=30))
    old, doubtful = aged(await put(folder), 31), aged(quarantine.mark_in_doubt(await put(folder)), 40)
    young, busy = await put(folder), aged(await put(folder), 50)
    counts_seen: list[tuple[int, int, QuarantineUsage]] = []

    with quarantine.locked(busy):
        await folder.sweep(lambda *counts: counts_seen.append(counts))

    assert {message.path for message in folder.messages()} == {young.path, busy.path}
    assert not old.path.exists()
    assert not doubtful.path.exists()
    assert counts_seen == [(2, 2, folder.usage())]


async def test_a_message_that_cannot_be_removed_is_reported_and_the_others_are_removed(
    tmp_path: pathlib.Path,
) -> None:
    folder = Quarantine(tmp_path, QuarantineSettings(days=30))
    stuck, old = aged(await put(folder), 90), aged(await put(folder), 80)
    stuck.path.unlink()
    stuck.path.mkdir()

    counts_seen: list[tuple[int, int, QuarantineUsage]] = []

    with pytest.raises(InputError, match=str(stuck.path)):
        await folder.sweep(lambda *counts: counts_seen.append(counts))

    assert counts_seen[0][:2] == (1, 1)
    assert not old.path.exists()


async def test_what_a_killed_process_has_not_finished_is_removed(tmp_path: pathlib.Path) -> None:
    folder = Quarantine(tmp_path)
    await put(folder)
    abandoned, begun = tmp_path / "tmp" / "abandoned", tmp_path / "tmp" / "begun"
    for path in (abandoned, begun):
        path.write_bytes(b"half a mess")
    os.utime(abandoned, (0, 0))

    await folder.sweep(lambda *_: None)

    assert [path for path in (abandoned, begun) if path.exists()] == [begun]


async def test_what_cannot_be_removed_or_is_finished_just_now_does_not_keep_old_messages(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Quarantine(tmp_path, QuarantineSettings(days=30))
    old, (stuck, finished, abandoned) = aged(await put(folder), 31), (tmp_path / "tmp" / name for name in "abc")
    stuck.mkdir()
    abandoned.write_bytes(b"half a mess")
    for path in (stuck, abandoned):
        os.utime(path, (0, 0))
    monkeypatch.setattr(pathlib.Path, "glob", lambda *_: iter([stuck, finished, abandoned]))
    counts_seen: list[tuple[int, int, QuarantineUsage]] = []

    with pytest.raises(InputError, match=str(stuck)):
        await folder.sweep(lambda *counts: counts_seen.append(counts))

    assert not old.path.exists()
    assert not abandoned.exists()
    assert counts_seen[0][:2] == (0, 1)


# Files are written all or none


def drafts(folder: pathlib.Path) -> list[maildir.MaildirDraft]:
    names = ("one", "two", "one")
    return [maildir.MaildirDraft(folder / name, maildir.unique_name(), b"X: y\n", CONTENT) for name in names]


def files_in(folder: pathlib.Path) -> list[pathlib.Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


async def test_all_files_are_synced_before_one_is_visible(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written_drafts = drafts(tmp_path)
    for name in ("one", "two"):
        maildir.create_maildir(tmp_path / name)
    synced: list[tuple[str, int]] = []

    def record(descriptor: int) -> None:
        path = pathlib.Path(f"/proc/self/fd/{descriptor}").readlink()
        synced.append((path.parent.name, len(files_in(tmp_path / "one/new") + files_in(tmp_path / "two/new"))))

    monkeypatch.setattr(os, "fsync", record)

    assert await maildir.write_drafts(written_drafts) is None

    assert synced == [("tmp", 0)] * 3 + [("one", 3), ("two", 3)]


@pytest.mark.parametrize("failing", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
async def test_no_file_is_left_wherever_writing_fails(
    failing: int, code: int, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written_drafts = drafts(tmp_path)
    for name in ("one", "two"):
        maildir.create_maildir(tmp_path / name)
    calls = iter(range(1, 9))

    def fail(_descriptor: int) -> None:
        if next(calls) == failing:
            raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fsync", fail)

    if code == errno.ENOSPC:
        assert await maildir.write_drafts(written_drafts) == SmtpReply(452, "4.3.1 Insufficient system storage")
    else:
        with pytest.raises(RelayUnavailable):
            await maildir.write_drafts(written_drafts)
    assert files_in(tmp_path) == []
