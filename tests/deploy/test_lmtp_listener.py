"""LMTP on both sides: a real Postfix, the LMTP listener on a unix socket, a real Dovecot."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.deploy.lmtp import PIECES, LmtpDovecot
from tests.harness.daemon import DaemonProcess, wait_until
from tests.harness.postfix import LMTP, STRANGER, Postfix, logins, open_folder
from tests.harness.programs import needs_root

SENDER = "someone@elsewhere.example"


@dataclass(slots=True)
class Site:
    """A running Postfix, the daemon behind it, and Dovecot behind that."""

    postfix: Postfix
    daemon: DaemonProcess
    dovecot: LmtpDovecot

    def send(self, raw: bytes, *users: str) -> None:
        with self.postfix.connect(self.postfix.outside, STRANGER) as client:
            client.sendmail(SENDER, [f"{user}@example.org" for user in users], raw)


@pytest.fixture
def site(program: Callable[[str], str], redis_binary: Path) -> Iterator[Site]:
    program("/usr/lib/dovecot/lmtp")
    program("postfix")
    needs_root()
    with open_folder() as folder:
        dovecot = LmtpDovecot(folder / "dovecot", program)
        # As the guide to the next hop says: lmtp in place of smtp, and no limit of recipients.
        master = re.sub(r"\bsmtp(_|$)", r"lmtp\1", (PIECES / "master.cf").read_text(), flags=re.MULTILINE)
        listen = f"unix:{folder}/lmtp"
        postfix = Postfix(folder, program, LMTP, pieces={"lmtp/master.cf": master})
        postfix.postconf("-X", "nbstream_destination_recipient_limit")
        postfix.postconf("-e", f"virtual_transport=nbstream:{listen}")
        settings = folder / "nbstream.yaml"
        settings.write_text(
            f"state_dir: {folder}/state\nlisteners: {{smtp: null, http: {{listen: 127.0.0.1:0}}, "
            f"lmtp: {{listen: '{postfix.own(listen)} mode=0666'}}}}\n"
            f"relay: {{next_hop: 'lmtp:unix:{dovecot.socket}'}}\n"
        )
        with dovecot.running(), logins(folder / "auth"), postfix.running():
            whole = Site(postfix, DaemonProcess(settings).ready(), dovecot)
            yield whole
            whole.daemon.kill()


def test_each_recipient_of_one_transaction_gets_the_reply_of_the_last_server(site: Site) -> None:
    site.send(b"Subject: m-three\r\n\r\nhello\r\n", "ann", "full", "bob")

    for user in ("ann", "bob"):
        wait_until(lambda user=user: bool(site.dovecot.delivered(user, b"m-three")))
        (message,) = site.dovecot.delivered(user, b"m-three")
        assert message.count(b"X-Nbstream: unsure;") == 1
    wait_until(lambda: bool(re.search(r"to=<full@example.org>.*status=bounced .*5\.2\.2", site.postfix.log)))
    assert not site.dovecot.delivered("full", b"m-three")
    assert site.daemon.metric('nbstream_messages_total{listener="lmtp",verdict="unsure"}') == 1
    assert "Too many recipients" not in site.postfix.log
