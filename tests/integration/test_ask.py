"""What a daemon has drawn is asked about on a terminal and on the page, and the answers are learned."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.conftest import RedisServer
from tests.integration.daemon import DEADLINE_SECONDS, DaemonProcess, command, send, wait_until
from tests.integration.page_client import PageClient
from tests.integration.test_replay import write_config

HOSTILE = "=?utf-8?q?free_=1B=5B2J=07=E2=80=AEprize?="


def letter(number: int, subject: str = "lunch") -> bytes:
    return (
        f"From: ann@x.example\nTo: bob@y.example\nSubject: {subject} {number}\nMessage-ID: <{number}@x.example>\n"
        f"Date: Mon, 2 Nov 2026 10:00:{number:02} +0000\n\nShall we have lunch on day {number}?\n"
    ).encode()


@pytest.fixture
def daemon(tmp_path: Path, own_redis: RedisServer) -> Iterator[DaemonProcess]:
    """One that draws every message, with a budget that nine ham suffice for."""
    config = write_config(
        tmp_path,
        redis=f"{{url: '{own_redis.url}'}}",
        model="{min_learned: {spam: 0, ham: 0}}",
        verdict="{max_false_positive_rate: 0.3, until_promised: 0.95}",
        ask="{share: 1.0}",
    )
    with DaemonProcess(config) as running:
        yield running


def on_a_terminal(config: Path, typed: str) -> str:
    """What ``nbstream ask`` writes to a terminal where somebody types this."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "nbstream.cli", "ask", "-c", str(config)], stdin=theirs, stdout=theirs
    )
    os.close(theirs)
    os.write(ours, typed.encode())
    seen = b""
    with suppress(OSError):  # Linux says so when nobody has the other end any more
        while chunk := os.read(ours, 4096):
            seen += chunk
    os.close(ours)
    assert process.wait(DEADLINE_SECONDS) == 0
    return seen.decode()


def ids(text: str) -> list[str]:
    return list(dict.fromkeys(re.findall(r"\b[a-z2-7]{24}\b", text)))


def test_what_was_drawn_is_asked_about_until_it_is_answered(daemon: DaemonProcess) -> None:
    send(daemon, [("bob@y.example", letter(number)) for number in range(9)])
    send(daemon, [("bob@y.example", letter(9, HOSTILE))])

    def listed() -> str:
        return command("ask", "--list", "-c", daemon.config).stdout

    wait_until(lambda: len(ids(listed())) == 10)
    questions = listed()
    assert (
        "A budget of 30 % of the ham needs the labels of 9 drawn ham where people label only errors, and has 0, "
        "none in the last 30 days." in questions
    )
    assert "labelled of those remembered: 0 of 10, 0 %" in questions
    assert [f"lunch {number}" in line for number, line in enumerate(questions.splitlines()[2:11])] == [True] * 9

    page = PageClient(daemon).get("/ui/ask")
    assert [key in page for key in ids(questions)] == [True] * 10

    seen = on_a_terminal(daemon.config, "h\n" * 8 + "\n" + "s\n")

    assert not {"\x1b", "\x07", "\u202e"} & set(seen)
    assert seen.count("learned as ham") == 8
    assert seen.count("learned as spam") == 1
    rest = listed()
    assert ids(rest) == [ids(questions)[8]]
    assert "where people label only errors, and has 8" in rest
    assert ids(rest)[0] in PageClient(daemon).get("/ui/ask")

    assert "learned as ham" in on_a_terminal(daemon.config, "h\n")
    nothing = command("ask", "-c", daemon.config)
    assert ids(nothing.stdout) == []
    assert "there is nothing to ask about now" in nothing.stderr
    assert "promised 30 %" in command("status", "-c", daemon.config).stdout


@pytest.fixture
def daemon_with_kinds(tmp_path: Path, own_redis: RedisServer) -> Iterator[DaemonProcess]:
    config = write_config(
        tmp_path,
        redis=f"{{url: '{own_redis.url}'}}",
        model="{classes: [ham, newsletter, notification, spam]}",
        ask="{share: 1.0}",
    )
    with DaemonProcess(config) as running:
        yield running


def test_a_kind_is_an_answer_by_its_number(daemon_with_kinds: DaemonProcess) -> None:
    config = daemon_with_kinds.config
    send(daemon_with_kinds, [("bob@y.example", letter(number)) for number in range(3)])
    wait_until(lambda: len(ids(command("ask", "--list", "-c", config).stdout)) == 3)

    seen = on_a_terminal(config, "1\n2\n3\n")

    assert "[s]pam, [h]am, [1] newsletter, [2] notification, Enter for the next one, [q]uit: " in seen
    assert seen.count("learned as newsletter") == 1
    assert seen.count("learned as notification") == 1
    assert len(ids(command("ask", "--list", "-c", config).stdout)) == 1


def test_who_ends_the_questions_early_is_taken_at_his_word_so_far(daemon: DaemonProcess) -> None:
    send(daemon, [("bob@y.example", letter(number)) for number in range(3)])
    wait_until(lambda: len(ids(command("ask", "--list", "-c", daemon.config).stdout)) == 3)

    seen = on_a_terminal(daemon.config, "spam\nq\n")

    assert len(re.findall("learned as", seen)) == 1
    assert len(ids(command("ask", "--list", "-c", daemon.config).stdout)) == 2
