"""The quarantine end to end: a daemon holds spam back, people look at it, and release what is ham."""

from __future__ import annotations

import json
import smtplib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.daemon import DaemonProcess, command, wait_until
from tests.harness.samples import samples

ODD = (
    b"Message-ID: <odd@example.org>\nFrom: =?utf-8?q?Ann_=1B[2J?= <ann@work.example.org>\nTo: you@example.net\n"
    b"Subject: =?utf-8?q?free_prize_=1B]0;x=07?=\n\n"
    b"claim free prize winner cash offer\x1b[31m casino bonus\nlast\n"
)


@pytest.fixture
def daemon(tmp_path: Path, redis_binary: Path) -> Iterator[DaemonProcess]:  # it starts the server itself
    config = tmp_path / "nb.yaml"
    config.write_text(
        f"state_dir: {tmp_path / 'state'}\nmodel: {{min_learned: 3}}\n"
        "listeners: {smtp: {listen: 127.0.0.1:0}, http: {listen: 127.0.0.1:0}}\nlog: {format: json}\n"
        "verdict: {spam: 0.6}\nrecipients:\n  - {match: '*@held.example', actions: {spam: quarantine}}\n"
    )
    with DaemonProcess(config) as process:
        yield process


def send(daemon: DaemonProcess, raw: bytes, *recipients: str) -> str:
    host, _, port = daemon.address("smtp").partition(":")
    with smtplib.SMTP(host, int(port), timeout=30) as client:
        client.ehlo("client.example.org")
        client.mail("from@example.org")
        for recipient in recipients:
            client.rcpt(recipient)
        code, text = client.data(raw.replace(b"\n", b"\r\n"))
        return f"{code} {text.decode()}"


def teach(daemon: DaemonProcess) -> None:
    for label, raw in samples(60):
        assert send(daemon, raw, f"{label}@nbstream.invalid").startswith("250")


def waiting(daemon: DaemonProcess) -> list[dict[str, object]]:
    result = command("quarantine", "list", "--json", "-c", daemon.config)
    assert result.returncode == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def delivered(daemon: DaemonProcess) -> list[str]:
    files = sorted(
        (daemon.config.parent / "state/Maildir/new").glob("*"), key=lambda path: path.stat().st_mtime_ns
    )
    return [path.read_bytes().decode("latin-1") for path in files]


def test_what_was_ham_is_released_with_its_envelope_and_learned(daemon: DaemonProcess) -> None:
    teach(daemon)

    reply = send(daemon, ODD, "a@held.example", "b@held.example", "c@free.example")
    assert reply == "250 2.0.0 Accepted"  # to whomever it was delivered

    (entry,) = waiting(daemon)
    assert entry["recipients"] == ["a@held.example", "b@held.example"]
    assert (entry["sender"], entry["verdict"], entry["policy"]) == ("from@example.org", "spam", "*@held.example")
    assert entry["subject"] == "free prize \x1b]0;x\x07"
    listed = command("quarantine", "list", "-c", daemon.config).stdout
    shown = command("quarantine", "show", str(entry["id"])[:5], "-c", daemon.config).stdout
    assert "from@example.org -> a@held.example and 1 more  free prize ?]0;x?" in listed
    assert "Subject: free prize ?]0;x?\n\nclaim free prize winner cash offer?[31m casino bonus\nlast\n" in shown
    assert "recipient  b@held.example\n" in shown
    assert not any(ord(c) < 32 and c != "\n" for c in listed + shown)

    (free,) = delivered(daemon)
    assert 'policy="default"' in free
    wait_until(lambda: [each for each in daemon.events if each["event"] == "message"])  # its log is a pipe
    event = next(each for each in daemon.events if each["event"] == "message")
    assert (event["action"], event["policy"]) == ("pass, quarantine", "default, *@held.example")
    assert daemon.metric('nbstream_actions_total{action="quarantine"}') == 1

    released = command("quarantine", "release", str(entry["id"]), "-c", daemon.config)

    assert released.returncode == 0, released.stderr
    assert released.stdout.startswith(f"{entry['id']} released; learned as ham")
    assert waiting(daemon) == []
    file = delivered(daemon)[-1]
    assert file.startswith(
        "Return-Path: <from@example.org>\nX-Envelope-To: a@held.example\nX-Envelope-To: b@held.example\n"
        "X-Spam-Status: No, score="
    )
    assert "X-Nbstream: ham; probability=" in file
    assert "X-Spam-Flag" not in file
    assert "X-Nbstream-Quarantine" not in file
    assert file.endswith(ODD.decode())
    again = command("quarantine", "release", str(entry["id"]), "-c", daemon.config)
    assert (again.returncode, "no such message" in again.stderr) == (66, True)
    assert len(delivered(daemon)) == 2
