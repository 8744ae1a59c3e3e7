from __future__ import annotations

import errno
import mailbox
import os
import pathlib
import re
import stat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbstream.delivery.maildir import MaildirNextHop, _envelope_fields
from nbstream.delivery.next_hop import SmtpPath, SmtpReply
from nbstream.errors import RelayUnavailable
from nbstream.mail.lines import PIECE_BYTES
from nbstream.server.smtp_replies import error_reply

ALICE, BOB, CAROL = SmtpPath("alice@a.test", ("SIZE=9",)), SmtpPath("bob@b.test"), SmtpPath("carol@c.test")
CONTENT = b"Subject: x\r\n\r\nhello\r\n"


async def deliver(
    next_hop: MaildirNextHop, content: bytes = CONTENT, sender: SmtpPath = ALICE, *recipients: SmtpPath
) -> SmtpReply:
    transaction = await next_hop.begin(sender)
    for recipient in recipients or (BOB,):
        assert (await transaction.rcpt(recipient)).code == 250
    return (await transaction.data(content)).single


def files(maildir: pathlib.Path) -> list[pathlib.Path]:
    return [path for path in maildir.rglob("*") if path.is_file()]


async def test_a_transaction_is_one_file_with_its_envelope(tmp_path: pathlib.Path) -> None:
    reply = await deliver(MaildirNextHop(tmp_path / "m"), CONTENT, ALICE, BOB, CAROL)

    (file,) = files(tmp_path)
    assert reply == SmtpReply(250, "2.0.0 Delivered to the Maildir")
    assert file.parent == tmp_path / "m" / "new"
    assert file.read_bytes() == (
        b"Return-Path: <alice@a.test>\n"
        b"X-Envelope-To: bob@b.test\n"
        b"X-Envelope-To: carol@c.test\n"
        b"Subject: x\n\nhello\n"
    )


@given(
    st.text(max_size=40).filter(lambda text: text.isascii() or text.isprintable()),
    st.text("\r\n\0\v\x85x:", max_size=9),
)
def test_no_address_can_write_a_header(sender: str, recipient: str) -> None:
    envelope = _envelope_fields(SmtpPath(sender), [SmtpPath(recipient)])

    first, second, end = envelope.split(b"\n")
    assert first.startswith(b"Return-Path: <")
    assert second.startswith(b"X-Envelope-To: ")
    assert end == b""
    assert not re.search(rb"[\x00-\x09\x0b-\x1f\x7f]", envelope)


@pytest.mark.parametrize("size", [0, 1, PIECE_BYTES, 3 * PIECE_BYTES])
async def test_line_ends_become_lf_and_nothing_else_changes(size: int, tmp_path: pathlib.Path) -> None:
    content = (b".From \xff\0\r\n\r\n" * (size // 11 + 1))[:size].removesuffix(b"\r")

    await deliver(MaildirNextHop(tmp_path), content)

    (file,) = files(tmp_path)
    assert file.read_bytes().split(b"\n", 2)[2] == content.replace(b"\r\n", b"\n")


async def test_a_mail_reader_finds_the_messages(tmp_path: pathlib.Path) -> None:
    next_hop = MaildirNextHop(tmp_path / "deep" / "m")
    for _ in range(3):
        await deliver(next_hop)

    messages = list(mailbox.Maildir(tmp_path / "deep" / "m", create=False))

    assert [message["Subject"] for message in messages] == ["x"] * 3


async def test_folders_and_files_are_private(tmp_path: pathlib.Path) -> None:
    await deliver(MaildirNextHop(tmp_path / "m"))

    folders = [tmp_path / "m", *(tmp_path / "m" / name for name in ("tmp", "new", "cur"))]
    assert {stat.S_IMODE(folder.stat().st_mode) for folder in folders} == {0o700}
    assert stat.S_IMODE(files(tmp_path)[0].stat().st_mode) == 0o600


async def test_file_and_folder_are_synced_in_order(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    next_hop = MaildirNextHop(tmp_path)
    await deliver(next_hop)
    earlier = files(tmp_path)
    synced: list[tuple[pathlib.Path, int]] = []

    def record(descriptor: int) -> None:
        target = pathlib.Path(f"/proc/self/fd/{descriptor}").readlink()
        synced.append((target, len(list((tmp_path / "new").iterdir()))))

    monkeypatch.setattr(os, "fsync", record)
    await deliver(next_hop)

    (file,) = set(files(tmp_path)) - set(earlier)
    assert synced == [(tmp_path / "tmp" / file.name, 1), (tmp_path / "new", 2)]


@pytest.mark.parametrize("failing", [1, 2], ids=["file", "folder"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
async def test_what_fails_leaves_no_file(
    code: int, failing: int, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    next_hop = MaildirNextHop(tmp_path)
    assert await next_hop.problem() is None
    calls = iter(range(1, 9))

    def fail(_descriptor: int) -> None:
        if next(calls) == failing:
            raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fsync", fail)

    if code == errno.EIO:
        with pytest.raises(RelayUnavailable):
            await deliver(next_hop)
    else:
        assert await deliver(next_hop) == SmtpReply(452, "4.3.1 Insufficient system storage")
    assert files(tmp_path) == []


@pytest.mark.parametrize("in_place_of", [".", "tmp", "new"])
async def test_a_folder_that_cannot_be_written_is_temporary(in_place_of: str, tmp_path: pathlib.Path) -> None:
    maildir = tmp_path / "m"
    (maildir / in_place_of).parent.mkdir(parents=True, exist_ok=True)
    (maildir / in_place_of).write_text("in the way")
    next_hop = MaildirNextHop(maildir)

    with pytest.raises(RelayUnavailable) as unavailable:
        await deliver(next_hop)

    assert str(tmp_path) not in str(error_reply(unavailable.value))
    assert await next_hop.problem() == "cannot be written"
    assert [path.read_text() for path in files(tmp_path)] == ["in the way"]


async def test_an_aborted_transaction_leaves_nothing(tmp_path: pathlib.Path) -> None:
    next_hop = MaildirNextHop(tmp_path / "m")
    transaction = await next_hop.begin(ALICE)
    await transaction.rcpt(BOB)

    await transaction.abort()

    assert files(tmp_path) == []
