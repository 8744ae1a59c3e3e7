"""A real Dovecot that hands what users move to the socket of a real daemon, as the guide configures both."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from nbstream.listeners.dovecot.spool import measure_backlog
from tests.harness.daemon import DaemonProcess, command, free_port, wait_until
from tests.harness.dovecot import PIECES, Dovecot
from tests.harness.postfix import open_folder
from tests.harness.programs import needs_root

LARGEST = 1_100_000
LIMITS = {"max_message_bytes": LARGEST}
_numbers = itertools.count(1)


def message(more: bytes = b"") -> bytes:
    """A message that was never there before; its text ends with ``more``."""
    number = next(_numbers)
    head = f"Message-ID: <{number}@example.org>\nSubject: Offer {number}\n\nClaim prize {number} now.\n"
    return head.encode() + more


def settings_of_guide(folder: Path) -> dict[str, object]:
    """The settings of ``deploy/dovecot``, with the folder and the owner of the mail that are in use here."""
    text = (PIECES / "nbstream.yaml").read_text()
    text = text.replace("/run/nbstream", f"{folder}/nbstream").replace("group=vmail", "group=nogroup")
    piece = yaml.safe_load(text.replace("[vmail]", "[nobody]"))
    return {
        **piece["listeners"],
        "smtp": {"listen": f"127.0.0.1:{free_port()}"},
        "http": {"listen": "127.0.0.1:0"},
    }


@dataclass(slots=True)
class Site:
    """A running Dovecot with a running daemon beside it."""

    dovecot: Dovecot
    settings: Path
    state: Path
    daemon: DaemonProcess

    def learned(self, label: str) -> int:
        """How many messages of the class the model knows."""
        return int(self.daemon.metric(f'nbstream_model_messages{{class="{label}"}}'))

    @property
    def waiting(self) -> int:
        """How many messages are in the spool."""
        return measure_backlog(self.state).waiting

    def errors(self, lines: int) -> list[str]:
        """The errors and warnings that Dovecot has logged after so many lines."""
        return [line for line in self.dovecot.log.splitlines()[lines:] if "Error:" in line or "Warning:" in line]


@pytest.fixture(scope="module")
def running(program: Callable[[str], str], redis_binary: Path) -> Iterator[Site]:  # the daemon needs a server
    for name in ("dovecot", "sievec"):
        program(name)
    needs_root()
    with open_folder() as folder:
        (folder / "nbstream").mkdir()
        state = folder / "state"
        settings = folder / "nbstream.yaml"
        listeners = settings_of_guide(folder)
        settings.write_text(
            json.dumps(
                {
                    "state_dir": str(state),
                    "listeners": listeners,
                    "redis": {"timeout_seconds": 1},
                    "limits": LIMITS,
                }
            )[:-1]
            + ', "log": {"format": "json"}}'
        )
        dovecot = Dovecot(folder, program, 1)  # nothing listens there: the program cannot report anything
        with dovecot.running():
            site = Site(dovecot, settings, state, DaemonProcess(settings).ready())
            yield site
            site.daemon.kill()


@pytest.fixture
def site(running: Site) -> Site:
    """With empty mailboxes and nothing in the spool."""
    for mailbox in ("INBOX", "Junk"):
        running.dovecot.put(mailbox)
    wait_until(lambda: running.waiting == 0)
    return running


def test_messages_that_are_moved_are_learned_and_relearned_as_their_user_s(site: Site) -> None:
    spam, ham = site.learned("spam"), site.learned("ham")
    lines = len(site.dovecot.log.splitlines())
    site.dovecot.put("INBOX", *(message() for _ in range(30)))

    site.dovecot.move("INBOX", "Junk")
    wait_until(lambda: site.learned("spam") == spam + 30)
    site.dovecot.move("Junk", "INBOX")
    wait_until(lambda: site.learned("ham") == ham + 30)

    assert site.learned("spam") == spam
    assert site.errors(lines) == []
    history = json.loads(command("history", "--json", "-c", site.settings).stdout.splitlines()[0])
    assert (history["source"], history["actor"]) == ("dovecot", "user ann")


def test_a_refusal_is_an_error_in_dovecot_s_log_and_the_message_moves_all_the_same(site: Site) -> None:
    lines = len(site.dovecot.log.splitlines())
    site.dovecot.put("INBOX", b"\n")
    site.dovecot.move("INBOX", "Junk")
    assert site.dovecot.count("Junk") == 1
    wait_until(lambda: any("failed to execute to program" in line for line in site.errors(lines)))


def test_without_the_socket_the_program_of_the_same_name_runs(site: Site) -> None:
    assert site.daemon.stop() == 0
    site.daemon.kill()
    lines = len(site.dovecot.log.splitlines())
    site.dovecot.put("INBOX", message())

    site.dovecot.move("INBOX", "Junk")

    assert site.dovecot.count("Junk") == 1
    wait_until(lambda: "Execution of script" in "\n".join(site.errors(lines)))
    assert re.search(
        r"nbstream-report: spam@nbstream\.invalid at 127\.0\.0\.1:1: 421", "\n".join(site.errors(lines))
    )
    site.daemon = DaemonProcess(site.settings).ready()
