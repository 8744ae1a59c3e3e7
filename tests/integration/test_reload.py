"""A running daemon applies its changed file: at once, as a whole, or not at all, and no mail notices."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import smtplib
import subprocess
import sys
import termios
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nbstream.daemon.config import load_settings, policy_hash
from tests.harness.daemon import DEADLINE_SECONDS, DaemonProcess, command, gone, wait_until

APPLIED = 'nbstream_config_reloads_total{outcome="applied"}'
REFUSED = 'nbstream_config_reloads_total{outcome="refused"}'
DOORS = "listeners: {smtp: {listen: '127.0.0.1:0'}, http: {listen: '127.0.0.1:0'}}\n"
REQUIRED = {0.99: "4.6", 0.9: "2.2", 0.8: "1.4"}  # P(spam) as X-Spam-Status writes it


class File:
    """The daemon's file, replaced as a whole."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.state = path.with_name("state")
        self.write()

    def write(self, text: str = "", doors: str = DOORS, log: str = "{format: json}") -> None:
        new = self.path.with_suffix(".new")
        new.write_text(f"state_dir: {self.state}\n{doors}log: {log}\nmodel: {{min_learned: 0}}\n{text}\n")
        new.replace(self.path)


@pytest.fixture
def file(tmp_path: Path, redis_binary: Path) -> File:  # the daemon starts the server itself
    return File(tmp_path / "nb.yaml")


@pytest.fixture
def daemon(file: File) -> Iterator[DaemonProcess]:
    with DaemonProcess(file.path) as process:
        yield process


def hang_up(daemon: DaemonProcess, series: str = APPLIED) -> None:
    """SIGHUP, and wait for what became of it."""
    before = daemon.metric(series)
    daemon.process.send_signal(signal.SIGHUP)
    wait_until(lambda: daemon.metric(series) == before + 1)


def connect(daemon: DaemonProcess) -> smtplib.SMTP:
    host, _, port = daemon.address("smtp").partition(":")
    client = smtplib.SMTP(host, int(port), timeout=DEADLINE_SECONDS)
    client.ehlo("client")
    return client


def envelope(client: smtplib.SMTP, recipient: str = "to@example.org") -> tuple[int, bytes]:
    client.mail("from@example.org")
    return client.rcpt(recipient)


def send(client: smtplib.SMTP, subject: str, recipient: str = "to@example.org") -> str:
    code, text = envelope(client, recipient)
    if code < 300:
        code, text = client.data(f"Subject: {subject}\r\n\r\nHow are you?\r\n".encode())
    else:
        client.rset()
    return f"{code} {text.decode()}"


def delivered(file: File) -> dict[str, str]:
    """Each message in the Maildir by its subject."""
    texts = [path.read_text() for path in (file.state / "Maildir" / "new").iterdir()]
    return {re.findall(r"^Subject: (.*)$", text, re.MULTILINE)[0]: text for text in texts}


def required(text: str) -> str:
    (threshold,) = re.findall(r"^X-Spam-Status: .* required=(.*)$", text, re.MULTILINE)
    return str(threshold)


def events(daemon: DaemonProcess, level: str) -> str:
    return "\n".join(event["event"] for event in daemon.events if event.get("level") == level)


def test_the_next_message_on_an_open_connection_goes_by_the_new_file_and_one_begun_by_the_old(
    daemon: DaemonProcess, file: File
) -> None:
    with connect(daemon) as waiting, connect(daemon) as writing:
        send(waiting, "first")
        envelope(writing)
        assert writing.docmd("DATA")[0] == 354
        writing.send(b"Subject: begun\r\n\r\nHow ")
        file.write("verdict: {spam: 0.9}")

        hang_up(daemon)

        send(waiting, "next")
        writing.send(b"are you?\r\n.\r\n")
        assert writing.getreply()[0] == 250
        send(writing, "after")

    found = {subject: required(text) for subject, text in delivered(file).items()}
    assert found == {"first": "4.6", "begun": "4.6", "next": "2.2", "after": "2.2"}
    assert daemon.metric('nbstream_threshold{name="spam"}') == 0.9


def test_a_file_with_an_error_anywhere_changes_nothing_and_the_log_says_which(
    daemon: DaemonProcess, file: File
) -> None:
    policy = policy_hash(load_settings(file.path))
    file.write("verdict: {spam: 0.9}\nfeedback: {allow_from: []}\nmemory:\n  hours: 0", log="{format: text}")

    hang_up(daemon, REFUSED)

    with connect(daemon) as client:
        assert send(client, "spam", "spam@nbstream.invalid").startswith("250 2.0.0 learned")
        send(client, "mail")
    assert required(delivered(file)["mail"]) == REQUIRED[0.99]
    assert daemon.metric(f'nbstream_policy_info{{hash="{policy}"}}') == 1
    assert daemon.metric(APPLIED) == 0
    why = f"{file.path}:8: memory.hours: found 0, must be at least 1"
    assert f"reload refused, nothing was changed: {why}" in events(daemon, "error")


def test_a_bad_file_is_refused_before_the_daemon_is_asked(daemon: DaemonProcess, file: File) -> None:
    file.write("verdict: {spam: 0.3}")

    result = command("reload", "-c", file.path)

    assert (result.returncode, result.stdout) == (78, "")
    assert "nb.yaml:5: verdict.spam: found 0.3, must be at least verdict.unsure" in result.stderr
    assert daemon.metric(REFUSED) == 0


def test_fifty_sighups_under_mail_lose_nothing_and_no_message_is_half_old_half_new(
    daemon: DaemonProcess, file: File
) -> None:
    replies: list[str] = []

    def mail(sender: int) -> None:
        with connect(daemon) as client:
            replies.extend(send(client, f"{sender} {number}") for number in range(40))

    senders = [threading.Thread(target=mail, args=(number,)) for number in range(4)]
    for each in senders:
        each.start()
    for number in range(50):
        file.write(f"verdict: {{spam: {(0.9, 0.8)[number % 2]}}}")
        daemon.process.send_signal(signal.SIGHUP)
    for each in senders:
        each.join(DEADLINE_SECONDS)
    file.write("verdict: {spam: 0.95}")
    hang_up_seen = daemon.metric(APPLIED)
    assert command("reload", "-c", file.path).returncode == 0

    assert len(replies) == 160
    assert {reply[:4] for reply in replies} == {"250 "}
    texts = delivered(file)
    assert len(texts) == 160
    for text in texts.values():
        (reason,) = re.findall(r'reason="0.5 \(unsure\) <= probability < (.*) \(spam\)"', text)
        assert required(text) == REQUIRED[float(reason)]
    assert hang_up_seen >= 1
    assert daemon.metric(REFUSED) == 0
    assert daemon.metric('nbstream_threshold{name="spam"}') == 0.95
    assert daemon.stop() == 0


def test_under_nohup_a_hangup_is_a_reload(file: File, program: Callable[[str], str]) -> None:
    with DaemonProcess(file.path, program("nohup")) as daemon:
        file.write("verdict: {spam: 0.9}")
        hang_up(daemon)

        assert daemon.metric('nbstream_threshold{name="spam"}') == 0.9
        assert daemon.stop() == 0


def has_a_terminal() -> None:
    """In a process that is about to be a daemon: standard input is its terminal, whoever runs these tests."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # ignored by what nohup has started


def test_a_daemon_ends_with_its_terminal_and_drains(file: File) -> None:
    terminal, own = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "nbstream.cli", "serve", "-c", str(file.path)],
        stdin=own,
        stdout=own,
        stderr=own,
        start_new_session=True,
        preexec_fn=has_a_terminal,  # noqa: PLW1509 - no other way to a terminal
    )
    os.close(own)
    try:
        said = b""
        while b'"ready"' not in said:
            said += os.read(terminal, 4096)
        os.kill(process.pid, signal.SIGHUP)
        while b'"reloaded"' not in said:
            said += os.read(terminal, 4096)
        redis = int((file.state / "redis.server").read_text())

        os.close(terminal)

        assert process.wait(DEADLINE_SECONDS) == 0
        assert gone(redis)
    finally:
        process.kill()
        process.wait()
