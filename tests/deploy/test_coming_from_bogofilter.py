"""The page for moving in, for bogofilter, as written: procmail and maildrop run bogofilter, and then nbstream."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.deploy.moving_in import OWN_PORT, Home, Machine
from tests.harness.postfix import open_folder

PRIZE = b"From: Prize Office <win@offers.example>\nSubject: You have won\n\nClaim your free prize now, %d times.\n"
LUNCH = b"From: Ann <ann@example.org>\nSubject: Lunch?\n\nShall we have lunch on Friday, at %d?\n"


@dataclass(slots=True)
class Site:
    """A user whose bogofilter has learned some messages of each class."""

    machine: Machine
    home: Home
    bogofilter: str
    procmail: str
    maildrop: str

    def deliver(self, message: bytes, folder: str, by: str) -> str:
        """The message as it lies in the folder after procmail or maildrop has delivered it."""
        if by == "procmail":
            self.home.run(self.procmail, "-p", "-m", ".procmailrc", message=message)
        else:
            self.home.run(self.maildrop, ".mailfilter", message=message)
        return self.home.delivered(folder)

    def install(self, heading: str) -> None:
        """Write what the page shows below the heading, behind what every user has in these files."""
        recipe = self.machine.shown(heading, "procmail")
        # Both programs take the home from the system's list of users, where this one's does not exist.
        home, begin = self.home.path, f'SHELL="/bin/sh"\nHOME="{self.home.path}"\n'
        self.home.write(".procmailrc", f"{begin}MAILDIR={home}/Maildir\nDEFAULT={home}/Maildir/\n{recipe}")
        self.home.write(".mailfilter", begin + self.machine.shown(heading, "maildrop"))


@pytest.fixture
def site(program: Callable[[str], str], redis_binary: Path) -> Iterator[Site]:
    if os.geteuid() != 0:
        pytest.skip("only root can run programs as another user")
    with open_folder() as folder:
        machine = Machine(folder, OWN_PORT, {})
        home = Home(machine, "ann")
        for number in range(20):
            home.run(program("bogofilter"), "-s", message=PRIZE % number)
            home.run(program("bogofilter"), "-n", message=LUNCH % number)
        with machine.stopping():
            yield Site(machine, home, program("bogofilter"), program("procmail"), program("maildrop"))


def fields(message: str, name: str) -> list[str]:
    """The values of the fields of this name."""
    return re.findall(rf"(?m)^{name}: (.*)", message.partition("\n\n")[0])


def test_from_the_first_step_to_the_way_back(site: Site) -> None:
    words = site.home.path / ".bogofilter/wordlist.db"
    site.machine.follow("bogofilter: observe")
    site.install("bogofilter: observe")

    for by in ("procmail", "maildrop"):
        spam = site.deliver(PRIZE % 30, "Maildir/.Junk", by)
        assert fields(spam, "X-Bogosity")[0].startswith("Spam, ")
        assert len(fields(spam, "X-Nbstream")) == 1
        ham = site.deliver(LUNCH % 30, "Maildir", by)
        assert fields(ham, "X-Bogosity")[0].startswith("Ham, ")
        assert len(fields(ham, "X-Nbstream")) == 1
    site.machine.stop()
    assert not fields(site.deliver(LUNCH % 31, "Maildir", "procmail"), "X-Nbstream")  # mail passes
    site.machine.restart()

    site.machine.fill_mailboxes()
    assert "60 learned as ham, 60 learned as spam" in site.machine.follow("Teach")
    site.machine.file(site.deliver(LUNCH % 40, "Maildir", "procmail"), ".Archive")
    assert "\n1 with a verdict in X-Bogosity" in site.machine.follow("Compare", "X-Bogosity")

    site.machine.follow("bogofilter: switch")
    before = words.read_bytes()
    site.install("bogofilter: switch")
    for by in ("procmail", "maildrop"):
        switched = site.deliver(LUNCH % 32, "Maildir", by)
        assert not fields(switched, "X-Bogosity")
        assert len(fields(switched, "X-Spam-Status")) == 1

    site.machine.follow("bogofilter: the way back", "mode: observe")
    assert words.read_bytes() == before  # it knows what it knew
