"""The page for moving in, for SpamAssassin, as written: nbstream behind spampd, and in procmail behind spamc."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.deploy.moving_in import OWN_PORT, Machine
from tests.deploy.old_filters import GTUBE, Spamd, Spampd
from tests.harness.daemon import free_port
from tests.harness.postfix import STRANGER, Postfix, open_folder
from tests.harness.programs import needs_root

MAIN = """
content_filter = smtp:[127.0.0.1]:{port}
smtpd_relay_restrictions = permit_mynetworks reject_unauth_destination
"""
SERVICES = """\
127.0.0.1:{back} inet n - n - - smtpd
    -o content_filter=
"""
LUNCH = "Subject: {}\nFrom: Ann <ann@elsewhere.example>\nMessage-ID: <{}@elsewhere.example>\n\nLunch on Friday?\n"


@dataclass(slots=True)
class Site:
    """Postfix with spampd behind its queue, as it was before the first step of the page."""

    postfix: Postfix
    machine: Machine

    def arrived(self, marker: str, body: str = "") -> str:
        with self.postfix.connect(self.postfix.outside, STRANGER) as client:
            client.sendmail("ann@elsewhere.example", "ann@example.org", LUNCH.format(marker, marker) + body)
        return self.postfix.arrived(marker).decode()


@pytest.fixture(scope="module")
def site(program: Callable[[str], str], redis_binary: Path) -> Iterator[Site]:
    program("postfix")
    needs_root()
    with open_folder() as folder:
        spampd = Spampd(folder, program)
        services = SERVICES.format(back=spampd.back)
        postfix = Postfix(folder, program, (), MAIN.format(port=spampd.port), services)
        postfix.make_socket_folder()
        paths = {
            **OWN_PORT,
            "/etc/spamassassin/local.cf": str(spampd.local),
            "127.0.0.1:10026": f"127.0.0.1:{spampd.back}",
        }
        machine = Machine(folder, paths, {"spampd": spampd.server.restart}, postfix)
        try:
            spampd.server.restart()
            with postfix.running(), machine.stopping():
                yield Site(postfix, machine)
        finally:
            spampd.server.stop()


def fields(message: str, name: str) -> list[str]:
    """The values of the fields of this name."""
    return re.findall(rf"(?m)^{name}: (.*)", message.partition("\n\n")[0])


@pytest.mark.soak  # a whole mail server moves to nbstream and back
def test_behind_spampd_from_the_first_step_to_the_way_back(site: Site) -> None:
    assert "Content preview" in site.arrived("m-wrapped", GTUBE)  # what the page warns of

    site.machine.follow("SpamAssassin: observe behind spampd or amavis")
    site.machine.follow("SpamAssassin: observe behind spampd or amavis")  # a second time changes nothing

    observed = site.arrived("m-observed")
    assert len(fields(observed, "X-Nbstream")) == 1
    assert fields(observed, "X-Spam-Status")[0].startswith("No, ")
    spam = site.arrived("m-spam", GTUBE)
    assert "Content preview" not in spam
    assert fields(spam, "X-Spam-Flag") == ["YES"]
    assert len(fields(spam, "X-Nbstream")) == 1

    assert site.machine.daemon is not None
    site.machine.daemon.kill()
    assert not fields(site.arrived("m-away"), "X-Nbstream")  # mail passes
    site.machine.restart()

    site.machine.fill_mailboxes()
    assert "60 learned as ham, 60 learned as spam" in site.machine.follow("Teach")
    site.machine.file(observed, ".Archive")
    assert "\n1 with a verdict in X-Spam-Status" in site.machine.follow("Compare", "X-Spam-Status")

    site.machine.follow("SpamAssassin: keep both")
    both = site.arrived("m-both", GTUBE)
    assert fields(both, "X-Spam-Flag") == ["YES"]  # SpamAssassin's
    assert len(fields(both, "X-Nbstream")) == 1

    site.machine.follow("SpamAssassin: nbstream alone")
    alone = site.arrived("m-alone", GTUBE)
    assert not fields(alone, "X-Spam-Checker-Version")
    assert fields(alone, "X-Spam-Status")[0].startswith("No, score=")

    for block in ("use_bayes 0", "content_filter", "smtpd_milters\n"):
        site.machine.follow("SpamAssassin: the way back", block)
    back = site.arrived("m-back")
    assert fields(back, "X-Spam-Checker-Version")
    assert not fields(back, "X-Nbstream")


@pytest.mark.soak  # a whole mail server moves to nbstream and back
def test_the_same_spamc_asks_nbstream_and_on_the_way_back_spamd(
    program: Callable[[str], str], redis_binary: Path
) -> None:
    with open_folder() as folder:
        spamd, options = Spamd(folder, program), folder / "spamc.conf"
        options.write_text(f"-d 127.0.0.1\n-p {spamd.port}\n")  # as a site has it whose spamd has another port
        paths = {**OWN_PORT, "/etc/spamassassin/spamc.conf": str(options), "1783": str(free_port())}
        machine, heading = Machine(folder, paths, {}), "SpamAssassin: the same spamc"
        client = folder / "bin/spamc"
        client.write_text(f'#!/bin/sh\nexec {program("spamc")} -F {options} "$@"\n')
        client.chmod(0o755)
        message = folder / "message.eml"
        message.write_text(LUNCH.format("prize", "prize"))

        def asked() -> str:
            return subprocess.run(
                [client], input=message.read_text(), capture_output=True, text=True, check=True
            ).stdout

        try:
            spamd.server.restart()
            with machine.stopping():
                machine.follow(heading, "systemctl restart nbstream")
                printed = machine.follow(heading, "spamc -L spam")
                assert printed.startswith("Message successfully un/learned\n")
                assert re.search(r"^[0-9.-]+/[0-9.]+$", printed, re.MULTILINE)
                assert len(re.findall("^X-Nbstream: ", printed, re.MULTILINE)) == 1
                assert len(fields(asked(), "X-Nbstream")) == 1
                machine.stop()
                assert asked() == message.read_text()
                machine.follow(heading, "sed -i")
                assert fields(asked(), "X-Spam-Checker-Version")
        finally:
            spamd.server.stop()
