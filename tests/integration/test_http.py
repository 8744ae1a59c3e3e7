"""The HTTP listener of a running daemon: beside SMTP, on a unix socket, and through a reload."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.harness.daemon import DEADLINE_SECONDS, DaemonProcess, command

LISTENERS = "smtp: {listen: '127.0.0.1:0'}, http: {listen: '127.0.0.1:0'}"
MAIL = "From: a@example.org\nSubject: prize\n\nYou have won a prize\n"


def write(path: Path, text: str = "", listeners: str = LISTENERS) -> Path:
    """Write the configuration file of a daemon."""
    path.write_text(
        f"state_dir: {path.with_name('state')}\nlisteners: {{{listeners}}}\nlog: {{format: json}}\n"
        f"model: {{min_learned: 0}}\n{text}\n"
    )
    return path


@pytest.fixture
def file(tmp_path: Path, redis_binary: Path) -> Path:  # the daemon starts the server itself
    return write(tmp_path / "nb.yaml")


def curl(program: str, *words: str) -> tuple[int, dict[str, Any]]:
    """Run curl, and return the status and the body."""
    result = subprocess.run(
        [program, "-s", "-w", "\n%{http_code}", *words],
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        check=True,
    )
    body, _, status = result.stdout.rpartition("\n")
    return int(status), json.loads(body)


def test_a_lesson_over_http_is_in_the_history_and_explained(file: Path, program: Callable[[str], str]) -> None:
    with DaemonProcess(file) as daemon:
        url = f"http://{daemon.address('http')}/v1/learn?label=spam"
        lesson = curl(program("curl"), "-H", "User: bob", "--data-binary", MAIL, url)[1]
        over_http = curl(program("curl"), f"http://{daemon.address('http')}/v1/messages/{lesson['id']}")[1]
        (line,) = command("history", "--json", "-c", file).stdout.splitlines()
        on_command_line = json.loads(command("explain", "--json", str(lesson["id"]), "-c", file).stdout)

    assert (json.loads(line)["source"], json.loads(line)["actor"]) == ("http", "bob")
    for record in (over_http, on_command_line):  # both are true now, at two moments
        record.pop("path", None)
        record["now"].pop("time")
    assert over_http == on_command_line


def test_a_unix_socket_that_another_program_replaced_stays(file: Path, tmp_path: Path) -> None:
    path = tmp_path / "h.sock"
    write(file, listeners=f"smtp: null, http: {{listen: 'unix:{path}'}}")
    with DaemonProcess(file) as daemon:
        path.rename(tmp_path / "old")  # its inode must not be used again
        path.touch()
        assert daemon.stop() == 0
    assert path.exists()
