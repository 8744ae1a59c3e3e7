"""The HTTP listener of a running daemon: beside SMTP, on a unix socket, and through a reload."""

from __future__ import annotations

import json
import signal
import smtplib
import socket
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.integration.daemon import DEADLINE_SECONDS, DaemonProcess, command, wait_until

LISTENERS = "smtp: {listen: '127.0.0.1:0'}, http: {listen: '127.0.0.1:0'}"
MAIL = "From: a@example.org\nSubject: prize\n\nYou have won a prize\n"


def write(path: Path, text: str = "", listeners: str = LISTENERS) -> Path:
    """Write the configuration file of a daemon."""
    path.write_text(
        f"state_dir: {path.with_name('state')}\nlisteners: {{{listeners}}}\nlog: {{format: json}}\n"
        f"model: {{min_learned: {{spam: 0, ham: 0}}}}\n{text}\n"
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


def test_a_reload_applies_to_the_next_request(file: Path, program: Callable[[str], str]) -> None:
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


@pytest.mark.soak
def test_a_flood_of_refusals_does_not_fill_the_log(file: Path, program: Callable[[str], str]) -> None:
    with DaemonProcess(file) as daemon:
        url = f"http://{daemon.address('http')}/v1/model"
        for _ in range(30):
            assert curl(program("curl"), "-H", "X-Real-IP: 192.0.2.1", url)[0] == 401
        assert daemon.stop() == 0
        refused = [event["peer"] for event in daemon.events if event["event"] == "http: a request was refused"]
        assert refused == ["127.0.0.1"] * 10


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


def test_on_a_unix_socket_with_its_permissions(file: Path, tmp_path: Path, program: Callable[[str], str]) -> None:
    path = tmp_path / "h.sock"
    write(file, listeners=f"smtp: null, http: {{listen: 'unix:{path} mode=0600'}}")
    with DaemonProcess(file) as daemon:
        assert daemon.address("http") == f"unix:{path}"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        ask = ("--unix-socket", str(path), "http://nbstream/v1/model")
        assert curl(program("curl"), *ask)[0] == 200
        daemon.kill()
    with DaemonProcess(file) as daemon:  # it replaces the socket that a killed daemon left
        assert curl(program("curl"), *ask)[0] == 200
        assert daemon.stop() == 0
    assert not path.exists()


def test_a_unix_socket_that_another_program_replaced_stays(file: Path, tmp_path: Path) -> None:
    path = tmp_path / "h.sock"
    write(file, listeners=f"smtp: null, http: {{listen: 'unix:{path}'}}")
    with DaemonProcess(file) as daemon:
        path.rename(tmp_path / "old")  # its inode must not be used again
        path.touch()
        assert daemon.stop() == 0
    assert path.exists()


EVERY_LISTENER = (
    "smtp: {listen: '127.0.0.1:0'}, http: {listen: '127.0.0.1:0'}, metrics: {listen: '127.0.0.1:0'}, "
    "spamd: {listen: '127.0.0.1:0'}, stream: {}"
)


def test_a_reload_with_every_listener_open(file: Path) -> None:
    write(file, listeners=EVERY_LISTENER)
    with DaemonProcess(file) as daemon:
        write(file, "verdict: {spam: 0.9}", listeners=EVERY_LISTENER)
        result = command("reload", "-c", file)
        assert result.returncode == 0, result.stderr
        assert json.loads(daemon.get("/v1/model")[1])["thresholds"]["spam"] == 0.9


def test_all_listeners_drain_at_once(file: Path) -> None:
    write(file, "drain_seconds: 3600", listeners=EVERY_LISTENER)
    with DaemonProcess(file) as daemon:
        host, _, port = daemon.address("smtp").partition(":")
        client = smtplib.SMTP(host, int(port), timeout=DEADLINE_SECONDS)
        client.ehlo("client")
        client.mail("from@example.org")
        client.rcpt("to@example.org")
        client.docmd("DATA")
        daemon.process.send_signal(signal.SIGTERM)
        wait_until(lambda: not accepts(daemon.address("spamd")))  # and does not wait for that client
        assert daemon.get("/healthz")[0] == 200
        client.send(b"Subject: under way\r\n\r\nHow are you?\r\n.\r\n")
        assert client.getreply()[0] == 250
        client.close()
        assert daemon.wait() == 0


def accepts(address: str) -> bool:
    host, _, port = address.partition(":")
    try:
        socket.create_connection((host, int(port)), DEADLINE_SECONDS).close()
    except ConnectionRefusedError:
        return False
    return True
