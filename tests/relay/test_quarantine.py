"""The quarantine's files: what is kept beside a message, who finds it, and when it goes."""

from __future__ import annotations

import errno
import fcntl
import mailbox
import os
import pathlib
import stat
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nbstream.errors import InputError, NotReleased, RelayUnavailable
from nbstream.relay import maildir_files, quarantine
from nbstream.relay.next_hop import Envelope, SmtpPath
from nbstream.relay.quarantine import Quarantine, QuarantinedMessage, QuarantineNote, RetentionResult
from nbstream.relay.quarantine_retention import QuarantineRetention
from nbstream.wire.smtp_reply import SmtpReply

A, B = "a" * 24, "ab" + "c" * 22
CONTENT = b"Subject: x\r\n\r\n.hello\r\n\r\n"
ENVELOPE = Envelope(
    SmtpPath("ann@a.test", ("SIZE=9", "BODY=8BITMIME")), (SmtpPath("bob@b.test"), SmtpPath("carol@c.test"))
)
DAY = 86_400


def note(message_id: str = A, envelope: Envelope = ENVELOPE) -> QuarantineNote:
    return QuarantineNote(message_id, "spam", 0.987, "*@b.test", envelope)


async def put(
    held: Quarantine, message_id: str = A, content: bytes = CONTENT, envelope: Envelope = ENVELOPE
) -> QuarantinedMessage:
    before = {each.path for each in held.messages()}
    assert (
        await maildir_files.write_drafts(
            [held.make_draft(note(message_id, envelope), b"X-Nbstream: spam\n", content)]
        )
        is None
    )
    (new,) = (each for each in held.messages() if each.path not in before)
    return new


def aged(held: QuarantinedMessage, days: float) -> QuarantinedMessage:
    """The same, since so many days ago."""
    name = f"{int(time.time() - days * DAY)}.{held.path.name.partition('.')[2]}"
    return QuarantinedMessage(held.id, held.at, held.path.rename(held.path.with_name(name)), held.in_doubt)


async def test_a_message_is_found_again_with_its_envelope(tmp_path: pathlib.Path) -> None:
    held = await put(Quarantine(tmp_path / "q"))

    assert quarantine.read_message(held) == (note(), b"X-Nbstream: spam\r\n" + CONTENT)
    assert quarantine.read_subject(held) == (note(), "x")
    assert not held.in_doubt


_ADDRESS = st.text(st.characters(codec=None), max_size=30).map(
    lambda text: text.encode("utf-8", "surrogatepass").decode("utf-8", "surrogateescape")
)
_PATH = st.builds(SmtpPath, _ADDRESS, st.lists(st.text(max_size=9), max_size=2).map(tuple))


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(_PATH, st.lists(_PATH, min_size=1, max_size=4), st.binary(max_size=40))
async def test_any_envelope_and_any_content_come_back(
    tmp_path: pathlib.Path, sender: SmtpPath, recipients: list[SmtpPath], body: bytes
) -> None:
    content = b"X: y\r\n\r\n" + body.replace(b"\r", b"").replace(b"\n", b"\r\n")
    envelope = Envelope(sender, tuple(recipients))

    held = await put(Quarantine(tmp_path), content=content, envelope=envelope)

    assert quarantine.read_message(held) == (note(envelope=envelope), b"X-Nbstream: spam\r\n" + content)
    held.path.unlink()


async def test_it_is_a_private_maildir(tmp_path: pathlib.Path) -> None:
    held = await put(Quarantine(tmp_path / "q"))

    (message,) = mailbox.Maildir(tmp_path / "q", create=False)
    assert message["Subject"] == "x"
    assert stat.S_IMODE(held.path.stat().st_mode) == 0o600
    assert {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "q").iterdir()} == {0o700}


async def test_messages_are_found_by_the_beginning_of_their_id_and_oldest_first(tmp_path: pathlib.Path) -> None:
    held = Quarantine(tmp_path)
    assert held.messages() == []
    young, old = await put(held, A), aged(await put(held, B), 3)
    (tmp_path / "new" / "1.x.y").write_bytes(b"somebody else's")

    assert [each.path for each in held.messages()] == [old.path, young.path]
    assert [each.id for each in held.messages("ab")] == [B]
    assert held.messages("abd") == []


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"Subject: x\n\n",
        b"X-Nbstream-Quarantine: {\n\n",
        b"X-Nbstream-Quarantine: []\n",
        b"X-Nbstream-Quarantine: {}\n",
    ],
)
async def test_a_file_that_is_not_ours_is_refused(tmp_path: pathlib.Path, content: bytes) -> None:
    held = await put(Quarantine(tmp_path))
    held.path.write_bytes(content)

    with pytest.raises(InputError, match="not written by nbstream"):
        quarantine.read_message(held)


async def test_only_the_beginning_of_a_large_message_is_glanced_at(tmp_path: pathlib.Path) -> None:
    held = await put(Quarantine(tmp_path), content=CONTENT + b"x" * 1_000_000 + b"\r\nSubject: late\r\n")

    assert quarantine.read_subject(held)[1] == "x"


async def test_marks_are_kept_in_the_folder_and_told(tmp_path: pathlib.Path) -> None:
    held = Quarantine(tmp_path)
    first = await put(held)

    marked = quarantine.mark_in_doubt(first)
    assert held.messages() == [marked]
    assert marked.in_doubt
    assert quarantine.mark_in_doubt(marked) == marked

    assert quarantine.mark_waiting(marked) == first
    assert held.messages() == [first]


async def test_a_message_is_taken_by_one_at_a_time_and_never_after_it_went(tmp_path: pathlib.Path) -> None:
    held = await put(Quarantine(tmp_path))

    with quarantine.locked(held), pytest.raises(NotReleased, match="is being released"), quarantine.locked(held):
        pass
    with quarantine.locked(held):
        held.path.unlink()
    with pytest.raises(NotReleased, match="by somebody else just now"), quarantine.locked(held):
        pass


async def test_what_goes_while_its_lock_is_asked_for_is_not_taken(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = await put(Quarantine(tmp_path))
    monkeypatch.setattr(fcntl, "flock", lambda _descriptor, _mode: held.path.unlink())

    with pytest.raises(NotReleased, match="by somebody else just now"), quarantine.locked(held):
        pass


async def test_what_is_too_old_goes_and_is_told(tmp_path: pathlib.Path) -> None:
    held = Quarantine(tmp_path)
    old, doubtful = aged(await put(held), 31), aged(quarantine.mark_in_doubt(await put(held)), 40)
    young, busy = await put(held), aged(await put(held), 50)
    told: list[tuple[int, int]] = []

    with quarantine.locked(busy):
        assert await QuarantineRetention(
            held, 30, lambda *counts: told.append(counts)
        ).remove_expired() == RetentionResult(2, 2)

    assert {each.path for each in held.messages()} == {young.path, busy.path}
    assert not old.path.exists()
    assert not doubtful.path.exists()
    assert told == [(2, 2)]


async def test_for_ever_is_for_ever(tmp_path: pathlib.Path) -> None:
    held = Quarantine(tmp_path)
    aged(await put(held), 3650)

    assert held.remove_expired(None) == RetentionResult(1, 0)
    assert Quarantine(tmp_path / "none").remove_expired(30) == RetentionResult(0, 0)


async def test_what_cannot_be_removed_hinders_nothing_else_and_is_told(tmp_path: pathlib.Path) -> None:
    held = Quarantine(tmp_path)
    stuck, old = aged(await put(held), 90), aged(await put(held), 80)
    stuck.path.unlink()
    stuck.path.mkdir()

    swept = held.remove_expired(30)

    assert (swept.remaining, swept.removed) == (1, 1)
    assert str(stuck.path) in swept.problem
    assert not old.path.exists()


async def test_so_many_go_at_once(tmp_path: pathlib.Path) -> None:
    held = Quarantine(tmp_path)
    for _ in range(3):
        aged(await put(held), 90)

    assert held.remove_expired(30, most=2) == RetentionResult(1, 2)
    assert held.remove_expired(30, most=2) == RetentionResult(0, 1)


async def test_a_folder_that_cannot_be_read_is_an_input_error(tmp_path: pathlib.Path) -> None:
    (tmp_path / "new").write_bytes(b"in the way")

    with pytest.raises(InputError, match="Not a directory"):
        Quarantine(tmp_path).remove_expired(30)


# Files, all or none


def drafts(folder: pathlib.Path) -> list[maildir_files.MaildirDraft]:
    names = ("one", "two", "one")
    return [
        maildir_files.MaildirDraft(folder / name, maildir_files.unique_name(), b"X: y\n", CONTENT)
        for name in names
    ]


def left(folder: pathlib.Path) -> list[pathlib.Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


async def test_all_files_are_synced_before_one_is_to_be_seen(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = drafts(tmp_path)
    for name in ("one", "two"):
        maildir_files.create_maildir(tmp_path / name)
    synced: list[tuple[str, int]] = []

    def record(descriptor: int) -> None:
        path = pathlib.Path(f"/proc/self/fd/{descriptor}").readlink()
        synced.append((path.parent.name, len(left(tmp_path / "one/new") + left(tmp_path / "two/new"))))

    monkeypatch.setattr(os, "fsync", record)

    assert await maildir_files.write_drafts(made) is None

    assert synced == [("tmp", 0)] * 3 + [("one", 3), ("two", 3)]


@pytest.mark.parametrize("failing", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
async def test_wherever_it_fails_no_file_is_left(
    failing: int, code: int, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = drafts(tmp_path)
    for name in ("one", "two"):
        maildir_files.create_maildir(tmp_path / name)
    calls = iter(range(1, 9))

    def fail(_descriptor: int) -> None:
        if next(calls) == failing:
            raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fsync", fail)

    if code == errno.ENOSPC:
        assert await maildir_files.write_drafts(made) == SmtpReply(452, "4.3.1 Insufficient system storage")
    else:
        with pytest.raises(RelayUnavailable):
            await maildir_files.write_drafts(made)
    assert left(tmp_path) == []


async def test_a_file_that_cannot_be_renamed_takes_the_others_with_it(tmp_path: pathlib.Path) -> None:
    made = drafts(tmp_path)
    maildir_files.create_maildir(tmp_path / "two")
    (tmp_path / "two" / "new").rmdir()
    (tmp_path / "two" / "new").write_bytes(b"")

    with pytest.raises(RelayUnavailable):
        await maildir_files.write_drafts(made)
    assert left(tmp_path) == [tmp_path / "two" / "new"]
