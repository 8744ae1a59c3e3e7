"""Workers that die, are told to end, or lose their supervisor: mail goes on, and nothing is lost."""

from __future__ import annotations

import json
import os
import signal
import smtplib
import socket
import threading
from pathlib import Path

import pytest

from nbstream.daemon.status import READY
from tests.harness.daemon import DEADLINE_SECONDS, DaemonProcess, command, free_port, gone, wait_until
from tests.integration.workers import MANY, Site, connect, logged_events, model, replaced, send, total

MESSAGES = "nbstream_messages_total"
RESTARTS = "nbstream_worker_restarts_total"


@pytest.fixture
def site(tmp_path: Path, redis_binary: Path) -> Site:  # the daemon starts the server itself
    return Site(tmp_path)


def test_a_killed_worker_is_replaced_and_what_it_counted_stays(site: Site) -> None:
    with site.running() as daemon:
        for number in range(MANY):
            send(daemon, f"before {number}")
        files = {path.name for path in (site.state / "metrics").iterdir()}
        for times, victim in enumerate(site.pids(), 1):
            os.kill(victim, signal.SIGKILL)
            assert total(daemon, MESSAGES) == MANY, "the metrics are there while a worker is replaced"
            replaced(daemon, times)
        assert {path.name for path in (site.state / "metrics").iterdir()} == files
        assert total(daemon, MESSAGES) == MANY
        for number in range(MANY):
            send(daemon, f"after {number}")

        assert total(daemon, MESSAGES) == 2 * MANY
        assert total(daemon, RESTARTS) == 2
        assert total(daemon, "nbstream_build_info") == 1
        (first, _) = [event for event in daemon.events if "starting another one" in str(event["event"])]
        assert first["event"] == "worker was killed by SIGKILL; starting another one"


@pytest.mark.soak
def test_mail_goes_on_while_workers_are_killed(site: Site) -> None:
    accepted: list[str] = []
    with site.running() as daemon:
        done = threading.Event()

        def deliver(name: int) -> None:
            number = 0
            while not done.is_set():
                number += 1
                subject = f"{name}-{number}"
                try:
                    if send(daemon, subject).startswith("250 "):
                        accepted.append(subject)
                except (OSError, smtplib.SMTPException):
                    continue  # a mail server tries again; here the next message does

        clients = [threading.Thread(target=deliver, args=(name,)) for name in range(3)]
        for client in clients:
            client.start()
        try:
            for times in range(1, 4):
                seen = len(accepted)
                wait_until(lambda: len(accepted) > seen + 20)  # noqa: B023 - called before the next
                os.kill(site.pids()[0], signal.SIGKILL)
                replaced(daemon, times)
        finally:
            done.set()
            for client in clients:
                client.join()
        assert set(accepted) <= set(site.delivered()), "acknowledged mail was lost"
        assert total(daemon, RESTARTS) == 3
        assert daemon.stop() == 0


def under_way(daemon: DaemonProcess, recipient: str = "to@example.org") -> smtplib.SMTP:
    """A connection on which a message has begun."""
    client = connect(daemon)
    client.mail("from@example.org")
    client.rcpt(recipient)
    assert client.docmd("DATA")[0] == 354
    return client


def finish(client: smtplib.SMTP) -> str:
    """The rest of the message, and its answer; a daemon that drains closes the connection after it."""
    client.send(b"Subject: under way\r\n\r\nHow are you?\r\n.\r\n")
    code, text = client.getreply()
    client.close()
    return f"{code} {text.decode()}"


CRASHING = """
import os, signal, sys
if any("nbstream.daemon.worker" in word for word in sys.orig_argv):
    os.kill(os.getpid(), signal.SIGSEGV)
"""


def test_a_daemon_none_of_whose_workers_gets_ready_ends(site: Site, tmp_path: Path) -> None:
    """The exit code says so, as with one process, and the service manager may start the daemon again."""
    (tmp_path / "sitecustomize.py").write_text(CRASHING)
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])

    result = command("serve", "-c", site.file, env={**os.environ, "PYTHONPATH": path})

    assert result.returncode == 75
    assert "nbstream: no worker became ready: the first was killed by SIGSEGV\n" in result.stderr
    assert "starting another one" not in result.stderr


def test_mail_is_taken_while_the_embedded_redis_cannot_start(site: Site) -> None:
    log = site.state / "redis" / "redis.log"
    log.mkdir(parents=True)  # the server cannot write there, as on a disk that is full

    with site.running() as daemon:
        assert send(daemon, "without counts").startswith("250 ")
        log.rmdir()
        wait_until(lambda: [state for _, state in site.states()] == [READY] * 2)


def accepts(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), DEADLINE_SECONDS).close()
    except ConnectionRefusedError:
        return False
    return True


@pytest.mark.soak
def test_without_their_parent_workers_drain_and_the_next_daemon_takes_over(site: Site) -> None:
    ports = f"smtp: {{listen: '127.0.0.1:{free_port()}'}}, http: {{listen: '127.0.0.1:{free_port()}'}}"
    site.write(listeners=ports)
    with site.running() as daemon:
        pids, server = site.pids(), int((site.state / "redis.server").read_text())
        assert send(daemon, "lesson", "spam@nbstream.invalid").startswith("250 ")
        client = under_way(daemon)
        daemon.process.kill()  # and the embedded server, its child, ends with it
        wait_until(lambda: not accepts(daemon.address("smtp")))
        assert finish(client).startswith("250 ")
    wait_until(lambda: all(map(gone, [*pids, server])))

    with site.running() as daemon:
        assert send(daemon, "afterwards").startswith("250 ")
        assert model(daemon)["learned"]["spam"] == 1


def test_sigterm_drains_all_and_a_unix_socket_tells_so(site: Site, tmp_path: Path) -> None:
    path = tmp_path / "http.sock"
    site.write(
        "drain_seconds: 3600", listeners=f"smtp: {{listen: '127.0.0.1:0'}}, http: {{listen: 'unix:{path}'}}"
    )
    with site.running() as daemon:
        server = int((site.state / "redis.server").read_text())
        clients = [under_way(daemon) for _ in range(20)]
        daemon.process.send_signal(signal.SIGTERM)
        wait_until(lambda: len(logged_events(daemon, "draining")) == 3)
        assert not accepts(daemon.address("smtp"))
        try:
            assert ask(path) == {"ready": False, "degraded": {"smtp": "draining"}}
        finally:  # else they would drain for an hour
            assert all(finish(client).startswith("250 ") for client in clients)
        assert daemon.wait() == 0
        assert gone(server)
        assert len(site.delivered()) == len(clients)
        assert daemon.events[-1]["event"] == "stopped"
        assert not path.exists()


def ask(path: Path) -> dict[str, object]:
    """/readyz over a unix socket."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(DEADLINE_SECONDS)
        connection.connect(str(path))
        connection.sendall(b"GET /readyz HTTP/1.0\r\n\r\n")
        with connection.makefile("rb") as answer:
            health: dict[str, object] = json.loads(answer.read().partition(b"\r\n\r\n")[2])
    return health
