"""The pieces for LMTP at work: a real Postfix, the daemon, a real Dovecot."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from nbstream.delivery.next_hop import SmtpPath
from nbstream.delivery.settings import RelaySettings
from nbstream.delivery.smtp_next_hop import SmtpNextHop
from tests.deploy.lmtp import PIECES, LmtpDovecot
from tests.harness.daemon import DaemonProcess, wait_until
from tests.harness.postfix import LMTP, STRANGER, Postfix, logins, open_folder
from tests.harness.programs import needs_root

SETTINGS = PIECES / "nbstream.yaml"
SENDER = "someone@elsewhere.example"

# What the servers on the way, and nbstream, put on top of a message.
TRACE = {"return-path", "delivered-to", "received"}
OWN = {"x-nbstream", "x-nbstream-clues", "x-nbstream-id", "x-spam-status", "x-spam-flag", "x-spam-level"}


@pytest.fixture(scope="module")
def dovecot(program: Callable[[str], str]) -> Iterator[LmtpDovecot]:
    program("/usr/lib/dovecot/lmtp")
    needs_root()
    with open_folder() as folder:
        server = LmtpDovecot(folder / "dovecot", program)
        with server.running():
            yield server


@dataclass(slots=True)
class Site:
    """A running Postfix, the daemon behind it, and Dovecot behind that."""

    postfix: Postfix
    settings: Path
    daemon: DaemonProcess
    dovecot: LmtpDovecot

    def send(self, raw: bytes, *users: str) -> None:
        with self.postfix.connect(self.postfix.outside, STRANGER) as client:
            client.sendmail(SENDER, [f"{user}@example.org" for user in users], raw)

    def arrived(self, user: str, marker: bytes) -> bytes:
        wait_until(lambda: self.dovecot.delivered(user, marker))
        (message,) = self.dovecot.delivered(user, marker)
        return message


@pytest.fixture(scope="module")
def site(program: Callable[[str], str], redis_binary: Path, dovecot: LmtpDovecot) -> Iterator[Site]:
    program("postfix")
    with open_folder() as folder:
        postfix = Postfix(folder, program, LMTP)
        settings = folder / "nbstream.yaml"
        text = postfix.own(SETTINGS.read_text()).replace("/var/lib/nbstream", f"{folder}/state")
        text = text.replace("listeners:\n", "listeners:\n  http: null\n")
        settings.write_text(text.replace("/run/dovecot/nbstream-lmtp", str(dovecot.socket)))
        with logins(folder / "auth"), postfix.running():
            whole = Site(postfix, settings, DaemonProcess(settings).ready(), dovecot)
            yield whole
            whole.daemon.kill()


MESSAGES = {
    "plain": b"Subject: m-plain\r\nFrom: a@b.example\r\n\r\nhello\r\n",
    "dots": b"Subject: m-dots\r\n\r\n.\r\n..\r\n.x\r\nx.\r\n\r\n.\r\n",
    "no body": b"Subject: m-no-body\r\n\r\n",
    "8 bits": b"Subject: m-8-bits \xfc\xc3\xbc\r\n\r\n\xe4\xff\x80\x1b\x07\r\n",
    "folded": b"Subject: m-folded\r\n\tand\r\n  more\r\nX-Odd:\r\n \r\nY: z\r\n\r\n\r\n\r\n",
    "mime": b"Subject: m-mime\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\nFrom me\r\n--b--",
    "long line": b"Subject: m-long-line\r\n\r\n" + b"x" * 2500 + b"\r\nend\r\n",
    "large": b"Subject: m-large\r\n\r\n" + b"0123456789 abcdefghij\r\n" * 3000,
}


@pytest.mark.parametrize("name", MESSAGES)
def test_a_message_arrives_as_it_was_but_for_our_fields_and_the_trace(name: str, site: Site) -> None:
    raw = MESSAGES[name]
    site.send(raw, "ann")

    message = site.arrived("ann", f"m-{name.replace(' ', '-')}".encode())

    sent = raw.replace(b"\r\n", b"\n")
    sent += b"" if sent.endswith(b"\n") else b"\n"
    assert message.endswith(sent)
    head = message.removesuffix(sent)
    names = {name.decode().lower() for name in re.findall(rb"^([^\s:]+):", head, re.MULTILINE)}
    assert names & OWN >= {"x-nbstream"}
    assert names <= TRACE | OWN


def test_each_recipient_gets_the_message_once(site: Site) -> None:
    site.send(b"Subject: m-both\r\n\r\nhello\r\n", "ann", "bob")

    for user in ("ann", "bob"):
        assert f"Delivered-To: {user}@example.org".encode() in site.arrived(user, b"m-both")
    assert "Too many recipients" not in site.postfix.log


def test_mail_waits_while_dovecot_is_away(site: Site) -> None:
    site.dovecot.stop()
    deferrals = site.postfix.log.count("status=deferred")
    site.send(b"Subject: m-away\r\n\r\nhello\r\n", "ann", "bob")
    wait_until(lambda: site.postfix.log.count("status=deferred") >= deferrals + 2)
    site.dovecot.start()

    for user in ("ann", "bob"):
        site.postfix.flush_until(partial(site.dovecot.delivered, user, b"m-away"))
        site.arrived(user, b"m-away")


async def test_dovecot_answers_for_each_recipient(dovecot: LmtpDovecot) -> None:
    next_hop = SmtpNextHop(RelaySettings.model_validate({"next_hop": f"lmtp:unix:{dovecot.socket}"}))
    transaction = await next_hop.begin(SmtpPath(SENDER))
    answers = [
        await transaction.rcpt(SmtpPath(f"{user}@example.org")) for user in ("ann", "nobody", "full", "bob")
    ]
    replies = await transaction.data(b"Subject: m-direct\r\n\r\nhello\r\n")
    await next_hop.close()

    assert [answer.code for answer in answers] == [250, 550, 250, 250]
    assert [reply.code for reply in replies.per_recipient(3)] == [250, 552, 250]
