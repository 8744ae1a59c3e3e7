"""The page for moving in, for rspamd, as written: a real Postfix asks a real rspamd, and then nbstream too."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from smtplib import SMTPDataError

import pytest

from tests.deploy.moving_in import Machine
from tests.deploy.old_filters import GTUBE, Rspamd
from tests.harness.daemon import free_port, wait_until
from tests.harness.postfix import STRANGER, Postfix, open_folder
from tests.harness.programs import needs_root

MAIN = """
smtpd_milters = inet:127.0.0.1:{milter}
smtpd_authorized_xclient_hosts = 127.0.0.2
smtpd_relay_restrictions = permit_mynetworks reject_unauth_destination
"""
LUNCH = "Subject: {}\nFrom: Ann <ann@elsewhere.example>\nMessage-ID: <{}@elsewhere.example>\n\nLunch on Friday?\n"


@dataclass(slots=True)
class Site:
    """Postfix with rspamd, as it was before the first step of the page."""

    postfix: Postfix
    rspamd: Rspamd
    machine: Machine

    def send(self, marker: str, body: str = "") -> None:
        """Send a message as a server elsewhere does: rspamd writes no header for mail of its own networks."""
        with self.postfix.connect(self.postfix.outside, STRANGER) as client:
            client.docmd("XCLIENT", "ADDR=192.0.2.7 NAME=mail.elsewhere.example HELO=mail.elsewhere.example")
            client.sendmail("ann@elsewhere.example", "ann@example.org", LUNCH.format(marker, marker) + body)

    def arrived(self, marker: str) -> str:
        self.send(marker)
        return self.postfix.arrived(marker).decode()


@pytest.fixture(scope="module")
def site(program: Callable[[str], str], redis_binary: Path) -> Iterator[Site]:
    program("postfix")
    needs_root()
    with open_folder() as folder:
        rspamd = Rspamd(folder, program)
        postfix = Postfix(folder, program, (), MAIN.format(milter=rspamd.milter))
        postfix.make_socket_folder()
        paths = {"/etc/rspamd/": f"{rspamd.folder}/", "127.0.0.1:11344": f"127.0.0.1:{free_port()}"}
        machine = Machine(folder, paths, {"rspamd": rspamd.server.restart}, postfix)
        try:
            rspamd.start()
            with postfix.running(), machine.stopping():
                yield Site(postfix, rspamd, machine)
        finally:
            rspamd.stop()


@pytest.mark.soak  # a whole mail server moves to nbstream and back
def test_the_page_from_the_first_step_to_the_way_back(site: Site) -> None:
    before = site.arrived("m-before")
    assert "X-Rspamd" not in before

    site.machine.follow("rspamd: observe")
    site.machine.follow("rspamd: observe")  # a second time changes nothing

    observed = site.arrived("m-observed")
    assert len(re.findall(r"(?m)^X-Rspamd-Action: ", observed)) == 1
    assert len(re.findall(r"(?m)^X-Nbstream: unsure; ", observed)) == 1
    assert "X-Spam-Status" not in observed
    with pytest.raises(SMTPDataError, match="Gtube"):
        site.send("m-gtube", GTUBE)

    assert site.machine.daemon is not None
    site.machine.wait_until_remembered(observed)
    site.machine.daemon.kill()
    assert "X-Nbstream" not in site.arrived("m-away")  # mail passes
    site.machine.restart()

    site.machine.fill_mailboxes()
    assert "ham: 60 messages" in site.machine.follow("Teach", "--plan")
    assert "60 learned as ham, 60 learned as spam" in site.machine.follow("Teach", "--yes")
    site.machine.file(observed, ".Archive")
    assert "\n1 with a verdict in X-Rspamd-Action" in site.machine.follow("Compare", "X-Rspamd-Action")

    assert "BAYES_SPAM" in site.rspamd.client("stat")
    site.machine.follow("rspamd: keep both")
    wait_until(lambda: "BAYES_SPAM" not in site.rspamd.client("stat"))  # a worker of before may still answer
    both = site.arrived("m-both")
    assert len(re.findall(r"(?m)^X-Spam-Status: No, ", both)) == 1
    assert "X-Rspamd-Action: " in both

    site.machine.follow("rspamd: nbstream alone")
    alone = site.arrived("m-alone")
    assert "X-Rspamd" not in alone
    assert "\nX-Spam-Status: No, " in alone

    site.machine.follow("rspamd: the way back")
    wait_until(lambda: "BAYES_SPAM" in site.rspamd.client("stat"))
    assert "X-Nbstream" not in site.arrived("m-back")
