"""The pieces for Dovecot at work between a real Dovecot and a real daemon: moving mail teaches.

The scripts run before the answer to the command that moves, so that a test can ask at once what was learned.
"""

from __future__ import annotations

import itertools
import os
import re
import signal
import smtplib
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.handlers import Sink

from tests.harness.daemon import DaemonProcess, command, free_port, wait_until
from tests.harness.dovecot import DELETED, PIECES, Dovecot
from tests.harness.postfix import open_folder
from tests.harness.programs import needs_root

REPORT = PIECES / "nbstream-report"
MAX_MESSAGE_BYTES = 100_000
SETTINGS = """\
state_dir: {folder}/state
listeners:
  smtp: {{listen: "127.0.0.1:{port}"}}
  http: {{listen: "127.0.0.1:0"}}
limits: {{max_message_bytes: {limit}}}
redis: {{timeout_seconds: 1}}
log: {{format: json}}
"""
_numbers = itertools.count(1)


def message(text: str = "Claim your free prize now.") -> bytes:
    """A message that was never there before."""
    number = next(_numbers)
    return f"Message-ID: <{number}@example.org>\nSubject: Offer {number}\n\n{text} {number}\n".encode()


@dataclass(slots=True)
class Site:
    """A running Dovecot with a running daemon beside it."""

    dovecot: Dovecot
    settings: Path
    listener: tuple[str, int]
    daemon: DaemonProcess
    _maildir: set[Path] = field(default_factory=set)

    def send(self, recipient: str, raw: bytes) -> str:
        """The daemon's answer to a mail."""
        with smtplib.SMTP(*self.listener, timeout=30) as client:
            client.ehlo("client")
            client.mail("someone@example.org")
            client.rcpt(recipient)
            code, text = client.data(raw)
            return f"{code} {text.decode()}"

    def delivered(self, raw: bytes) -> bytes:
        """The message as it comes out of the filter, with its verdict."""
        assert self.send("ann@example.org", raw).startswith("250 ")
        new = set((self.settings.parent / "state" / "Maildir" / "new").iterdir()) - self._maildir
        self._maildir |= new
        (path,) = new
        return path.read_bytes()

    @property
    def lessons(self) -> Counter[tuple[str, str]]:
        """How often which outcome was reported for a label."""
        series = r'^nbstream_feedback_total\{label="(\w+)",outcome="(\w+)",source="smtp"\} ([\d.]+)$'
        counts = re.findall(series, self.daemon.get("/metrics")[1], re.MULTILINE)
        return Counter({(label, outcome): int(float(count)) for label, outcome, count in counts})

    @property
    def known(self) -> tuple[int, int]:
        """The messages of spam and of ham that the model knows."""
        spam, ham = (
            self.daemon.metric(f'nbstream_model_messages{{class="{label}"}}') for label in ("spam", "ham")
        )
        return int(spam), int(ham)


@pytest.fixture(scope="module")
def running(program: Callable[[str], str], redis_binary: Path) -> Iterator[Site]:  # the daemon needs a server
    for name in ("dovecot", "sievec"):
        program(name)
    needs_root()
    with open_folder() as folder:
        port = free_port()
        settings = folder / "nbstream.yaml"
        settings.write_text(SETTINGS.format(folder=folder, port=port, limit=MAX_MESSAGE_BYTES))
        dovecot = Dovecot(folder, program, port)
        with dovecot.running():
            site = Site(dovecot, settings, ("127.0.0.1", port), DaemonProcess(settings).ready())
            yield site
            site.daemon.kill()


@pytest.fixture
def site(running: Site) -> Site:
    """With empty mailboxes."""
    for mailbox in ("INBOX", "Junk", "Trash", "Archive", DELETED):
        running.dovecot.put(mailbox)
    return running


def test_what_is_moved_to_junk_and_back_is_learned_and_relearned(site: Site) -> None:
    raw = message()
    spam, ham = site.known
    before = site.lessons
    site.dovecot.put("INBOX", site.delivered(raw))
    assert site.lessons == before

    site.dovecot.move("INBOX", "Junk")
    assert site.lessons - before == {("spam", "learned"): 1}
    assert site.known == (spam + 1, ham)
    assert site.send("spam@nbstream.invalid", raw).startswith("250 2.0.0 already learned as spam")

    before = site.lessons
    site.dovecot.move("Junk", "INBOX")
    assert site.lessons - before == {("ham", "relearned"): 1}
    assert site.known == (spam, ham + 1)
    assert (site.dovecot.count("INBOX"), site.dovecot.count("Junk")) == (1, 0)


def test_a_client_that_copies_and_expunges_teaches_the_same(site: Site) -> None:
    before = site.lessons
    site.dovecot.put("INBOX", site.delivered(message()))
    site.dovecot.copy("INBOX", "Junk")
    site.dovecot.put("INBOX")
    site.dovecot.copy("Junk", "Archive")
    site.dovecot.put("Junk")
    assert site.lessons - before == {("spam", "learned"): 1, ("ham", "relearned"): 1}
    assert site.dovecot.count("Archive") == 1


def test_what_is_put_into_junk_from_elsewhere_is_spam(site: Site) -> None:
    before = site.lessons
    site.dovecot.put("Junk", message())
    assert site.lessons - before == {("spam", "learned"): 1}
    assert site.dovecot.count("Junk") == 1


@pytest.mark.parametrize("target", ["Trash", DELETED, "Junk", "Junk.old", "Viruses"])
def test_out_of_junk_into_the_trash_or_other_junk_is_not_ham(site: Site, target: str) -> None:
    site.dovecot.put("Junk", message())
    before, known = site.lessons, site.known
    site.dovecot.copy("Junk", target)
    assert site.lessons[("ham", "relearned")] == before[("ham", "relearned")]
    assert site.lessons[("ham", "learned")] == before[("ham", "learned")]
    assert site.known == known


@pytest.mark.parametrize("target", ["Trash", "Archive"])
def test_moves_that_do_not_touch_junk_teach_nothing(site: Site, target: str) -> None:
    before = site.lessons
    site.dovecot.put("INBOX", message())
    site.dovecot.move("INBOX", target)
    assert site.lessons == before


def test_a_forward_that_is_junk_is_learned_itself_and_not_what_it_carries(site: Site) -> None:
    inner = message()
    carrier = (
        b'Subject: Fwd\nContent-Type: multipart/mixed; boundary="b"\n\n'
        b"--b\nContent-Type: message/rfc822\n\n" + inner + b"\n--b--\n"
    )
    site.dovecot.put("INBOX", carrier)
    before = site.lessons
    site.dovecot.move("INBOX", "Junk")
    site.dovecot.put("Junk", inner)
    assert site.lessons - before == {("spam", "learned"): 2}


def test_without_the_daemon_mail_moves_all_the_same_and_the_log_says_what_was_not_learned(site: Site) -> None:
    assert site.daemon.stop() == 0
    site.daemon.kill()
    lines = len(site.dovecot.log.splitlines())
    raw = message()
    site.dovecot.put("INBOX", raw)

    site.dovecot.move("INBOX", "Junk")

    assert (site.dovecot.count("INBOX"), site.dovecot.count("Junk")) == (0, 1)
    wait_until(lambda: "report-spam.sieve failed" in site.dovecot.log)
    new = "\n".join(site.dovecot.log.splitlines()[lines:])
    assert re.search(r"Error: nbstream-report: spam@nbstream\.invalid at \S+: 421 .*Connection refused", new)
    assert "imap(ann)" in new

    # What was missed is made good with the files.
    site.daemon = DaemonProcess(site.settings).ready()
    (path,) = (site.dovecot.folder / "mail" / "ann" / ".Junk").glob("[cn]*/*")
    assert b" learned as spam" in report(site, path.read_bytes()).stdout
    assert site.send("spam@nbstream.invalid", raw).startswith("250 2.0.0 already learned as spam")


def test_a_refusal_is_told_and_moves_the_message_all_the_same(site: Site) -> None:
    site.dovecot.put("INBOX", message("x" * 70 + "\n" + ("y" * 70 + "\n") * (MAX_MESSAGE_BYTES // 70)))
    before = site.known
    site.dovecot.move("INBOX", "Junk")
    assert site.dovecot.count("Junk") == 1
    assert site.known == before
    wait_until(lambda: "spam@nbstream.invalid at 127.0.0.1" in site.dovecot.log and ": 552 " in site.dovecot.log)


def report(site: Site, raw: bytes, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    host, port = site.listener
    words = [str(REPORT), *(arguments or (f"{host}:{port}", "spam@nbstream.invalid"))]
    return subprocess.run(words, input=raw, capture_output=True, timeout=60, check=False)


def test_the_program_says_when_nothing_can_be_learned_now(site: Site) -> None:
    raw = message()
    redis = int((site.settings.parent / "state" / "redis.server").read_text())
    os.kill(redis, signal.SIGSTOP)
    try:
        done = report(site, raw)
    finally:
        os.kill(redis, signal.SIGCONT)
    assert done.returncode == 75
    assert b": 451 4.3.0 Learning is not possible now" in done.stderr

    wait_until(lambda: report(site, raw).returncode == 0)


@contextmanager
def own_models(site: Site, more: str) -> Iterator[None]:
    """With a model for each user of example.org, and ``more`` settings."""
    text = site.settings.read_text()
    for settings in (f'{text}models: [{{match: "*@example.org", name: "{{domain}}/{{local}}"}}]\n{more}', text):
        assert site.daemon.stop() == 0
        site.daemon.kill()
        site.settings.write_text(settings)
        site.daemon = DaemonProcess(site.settings).ready()
        if settings != text:
            yield


def test_with_own_models_a_move_teaches_the_model_of_the_mail_user_alone(site: Site) -> None:
    with own_models(site, "own_models: {domain: example.org}\n"):
        known, before = site.known, site.lessons
        site.dovecot.put("INBOX", message())

        site.dovecot.move("INBOX", "Junk")
        assert site.lessons - before == {("spam", "learned"): 1}
        site.dovecot.move("Junk", "INBOX")

        assert site.lessons - before == {("spam", "learned"): 1, ("ham", "relearned"): 1}
        assert site.known == known
        models = command("model", "list", "--json", "-c", site.settings).stdout
        assert "example.org/ann" in models


def test_a_next_hop_that_takes_no_user_without_a_domain_hinders_no_report(
    tmp_path: Path, redis_binary: Path
) -> None:
    class Strict(Sink):
        async def handle_MAIL(self, *arguments: Any) -> str:
            envelope, sender = arguments[2:4]
            if sender.strip("<>") and "@" not in sender:
                return "501 5.5.4 the sender has no domain"
            envelope.mail_from = sender
            return "250 OK"

    port, settings = free_port(), tmp_path / "nbstream.yaml"
    next_hop = Controller(Strict(), hostname="127.0.0.1", port=free_port())
    text = SETTINGS.format(folder=tmp_path, port=port, limit=MAX_MESSAGE_BYTES)
    settings.write_text(f'{text}relay: {{next_hop: "smtp://127.0.0.1:{next_hop.port}"}}\n')
    next_hop.start()
    try:
        with DaemonProcess(settings):
            words = [str(REPORT), f"127.0.0.1:{port}", "spam@nbstream.invalid", "ann"]
            done = subprocess.run(words, input=message(), capture_output=True, timeout=30, check=False)
    finally:
        next_hop.stop()

    assert (done.returncode, done.stderr) == (0, b"")
