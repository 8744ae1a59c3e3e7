"""The page for moving in, as written, for a real Postfix without a filter."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.deploy.moving_in import OWN_PORT, Machine
from tests.harness.postfix import STRANGER, Postfix, open_folder
from tests.harness.programs import needs_root

MAIN = "smtpd_relay_restrictions = permit_mynetworks reject_unauth_destination\n"
LUNCH = "Subject: {}\nFrom: Ann <ann@elsewhere.example>\nMessage-ID: <{}@elsewhere.example>\n\nLunch on Friday?\n"


@dataclass(slots=True)
class Site:
    """Postfix as it was before the first step of the page."""

    postfix: Postfix
    machine: Machine

    def arrived(self, marker: str) -> str:
        with self.postfix.connect(self.postfix.outside, STRANGER) as client:
            client.sendmail("ann@elsewhere.example", "ann@example.org", LUNCH.format(marker, marker))
        return self.postfix.arrived(marker).decode()


@pytest.fixture(scope="module")
def site(program: Callable[[str], str], redis_binary: Path) -> Iterator[Site]:
    program("postfix")
    needs_root()
    with open_folder() as folder:
        postfix = Postfix(folder, program, (), MAIN)
        postfix.make_socket_folder()
        machine = Machine(folder, OWN_PORT, {}, postfix)
        with postfix.running(), machine.stopping():
            yield Site(postfix, machine)


def test_from_the_first_step_to_the_way_back(site: Site) -> None:
    site.machine.follow("No filter: observe")
    site.machine.follow("No filter: observe")  # a second time changes nothing

    observed = site.arrived("m-observed")
    assert re.findall(r'(?m)^X-Nbstream: unsure; .*; reason="learning 0/100";$', observed)
    assert "X-Spam-Status" not in observed

    site.machine.fill_mailboxes()
    assert "60 learned as ham, 60 learned as spam" in site.machine.follow("Teach")

    site.machine.follow("No filter: switch")
    assert len(re.findall(r"(?m)^X-Spam-Status: No, ", site.arrived("m-decided"))) == 1

    site.machine.follow("No filter: the way back")
    assert "X-Nbstream" not in site.arrived("m-back")
