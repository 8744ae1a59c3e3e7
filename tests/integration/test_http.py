"""The HTTP door of a running daemon: beside SMTP, on a unix socket, and through a reload."""

from __future__ import annotations

import json
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.integration.daemon import DEADLINE_SECONDS, DaemonProcess, command

DOORS = "smtp: {listen: '127.0.0.1:0'}, http: {listen: '127.0.0.1:0'}"
MAIL = "From: a@example.org\nSubject: prize\n\nYou have won a prize\n"


def write(path: Path, text: str = "", doors: str = DOORS) -> Path:
    """The file of a daemon."""
    path.write_text(
        f"state_dir: {path.with_name('state')}\nlisteners: {{{doors}}}\nlog: {{format: json}}\n"
        f"model: {{min_learned: {{spam: 0, ham: 0}}}}\n{text}\n"
    )
    return path


@pytest.fixture
def file(tmp_path: Path, redis_binary: Path) -> Path:  # the daemon starts the server itself
    return write(tmp_path / "nb.yaml")


def curl(program: str, *words: str) -> tuple[int, dict[str, Any]]:
    """Status and body."""
    done = subprocess.run(
        [program, "-s", "-w", "\n%{http_code}", *words],
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        check=True,
    )
    body, _, status = done.stdout.rpartition("\n")
    return int(status), json.loads(body)


def test_a_reload_holds_for_the_next_request(file: Path, program: Callable[[str], str]) -> None:
    with DaemonProcess(file) as daemon:
        api = f"http://{daemon.address('http')}/v1"
        ask, teach = ("--data-binary", MAIL, f"{api}/check"), ("--data-binary", MAIL, f"{api}/learn?label=spam")
        before = curl(program("curl"), *ask)
        assert curl(program("curl"), *teach)[0] == 200

        write(file, "verdict: {unsure: 0.1, spam: 0.2}\nfeedback: {allow_from: []}")
        assert command("reload", "-c", file).returncode == 0

        after = curl(program("curl"), *ask)
        assert (before[1]["verdict"], after[1]["verdict"]) == ("unsure", "spam")
        assert curl(program("curl"), *teach)[0] == 401
        assert curl(program("curl"), f"{api}/model")[1]["thresholds"]["spam"] == 0.2
        assert daemon.metric('nbstream_messages_total{listener="http",verdict="spam"}') == 1
        assert daemon.stop() == 0
        assert [event["listener"] for event in daemon.events if event["event"] == "message"] == ["http", "http"]


def test_what_is_taught_over_http_is_in_the_history_and_explained(
    file: Path, program: Callable[[str], str]
) -> None:
    with DaemonProcess(file) as daemon:
        url = f"http://{daemon.address('http')}/v1/learn?label=spam"
        taught = curl(program("curl"), "-H", "User: bob", "--data-binary", MAIL, url)[1]
        told = curl(program("curl"), f"http://{daemon.address('http')}/v1/messages/{taught['id']}")[1]
        (line,) = command("history", "--json", "-c", file).stdout.splitlines()
        explained = json.loads(command("explain", "--json", str(taught["id"]), "-c", file).stdout)

    assert (json.loads(line)["source"], json.loads(line)["actor"]) == ("http", "bob")
    for each in (told, explained):  # as they are now, in two moments
        each.pop("path", None)
        each["now"].pop("time")
    assert told == explained


def test_on_a_unix_socket_with_its_permissions(file: Path, tmp_path: Path, program: Callable[[str], str]) -> None:
    path = tmp_path / "h.sock"
    write(file, doors=f"smtp: null, http: {{listen: 'unix:{path}', socket_mode: '0600'}}")
    with DaemonProcess(file) as daemon:
        assert daemon.address("http") == f"unix:{path}"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        ask = ("--unix-socket", str(path), "http://door/v1/model")
        assert curl(program("curl"), *ask)[0] == 200
        daemon.kill()
    with DaemonProcess(file) as daemon:  # what is left of a killed one is replaced
        assert curl(program("curl"), *ask)[0] == 200
        assert daemon.stop() == 0
