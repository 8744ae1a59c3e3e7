"""Reloads and a drain of a whole daemon while clients use each of its listeners.

Nothing that was answered is lost or done twice, and a client hears a whole answer or none.
"""

from __future__ import annotations

import itertools
import json
import re
import signal
import smtplib
import socket
import subprocess
import threading
import urllib.request
from abc import ABC, abstractmethod
from collections import Counter
from contextlib import closing, suppress
from pathlib import Path

from nbstream.listeners.dovecot.spool import SpoolBacklog, measure_backlog
from nbstream.mail.message import Message
from tests.harness import milter_frames as wire
from tests.harness.daemon import DEADLINE_SECONDS, DaemonProcess, command, wait_until
from tests.harness.filter_script import SCRIPT
from tests.harness.spool_client import REFUSED, TAKEN, report
from tests.integration.workers import Site, logged_events

PACE_SECONDS = 0.02  # between two messages of one client
RELOADS = 3
ANSWERS_BEFORE_THE_END = 10  # of each client
OWN_ID = re.compile(rb"\bid=([0-9a-z]+)")


def message(client: str, number: int) -> bytes:
    return f"Subject: {client}-{number}.\r\n\r\nLetter {number} of {client}.\r\n".encode()


def id_of(raw: bytes) -> str:
    return Message.parse(raw).key


class Client(ABC, threading.Thread):
    """Sends one message after the other until it is told to stop, and notes which were answered."""

    def __init__(self, address: str) -> None:
        super().__init__(name=type(self).__name__)
        self.address = address
        self.answered: list[bytes] = []
        self.unanswered: list[bytes] = []
        self.fault: BaseException | None = None
        self.ended = threading.Event()

    def run(self) -> None:
        try:
            for number in itertools.count():
                if self.ended.wait(PACE_SECONDS):
                    return
                raw = message(self.name, number)
                is_answered = False
                with suppress(ConnectionError, FileNotFoundError, EOFError, smtplib.SMTPServerDisconnected):
                    is_answered = self.send(raw)
                (self.answered if is_answered else self.unanswered).append(raw)
        except BaseException as fault:  # noqa: BLE001 - the test raises it
            self.fault = fault

    @property
    def host_and_port(self) -> tuple[str, int]:
        host, _, port = self.address.rpartition(":")
        return host, int(port)

    @abstractmethod
    def send(self, raw: bytes) -> bool:
        """Send a message; return whether the answer to it came. Raises ``EOFError`` where there is none."""


class Smtp(Client):
    def connect(self) -> smtplib.SMTP:
        return smtplib.SMTP(*self.host_and_port)

    def send(self, raw: bytes) -> bool:
        try:
            connection = self.connect()
        except smtplib.SMTPConnectError as error:
            raise EOFError from error
        with closing(connection):  # QUIT may be answered that the daemon ends
            connection.ehlo("client")
            for say, address in ((connection.mail, "a@example.org"), (connection.rcpt, "b@example.org")):
                code, _ = say(address)
                if code == 421:
                    return False
                assert code == 250
            return connection.data(raw)[0] == 250


class Lmtp(Smtp):
    def connect(self) -> smtplib.SMTP:
        return smtplib.LMTP(*self.host_and_port)


class Http(Client):
    def send(self, raw: bytes) -> bool:
        request = urllib.request.Request(f"http://{self.address}/v1/check", data=raw, method="POST")
        try:
            with urllib.request.urlopen(request, timeout=DEADLINE_SECONDS) as response:
                assert json.loads(response.read())["id"] == id_of(raw)
        except urllib.error.HTTPError as error:
            error.close()
            if error.code != 503:
                raise
            return False
        except urllib.error.URLError as error:
            raise EOFError from error
        return True


class Spamd(Client):
    def send(self, raw: bytes) -> bool:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(DEADLINE_SECONDS)
            connection.connect(self.address.removeprefix("unix:"))
            connection.sendall(b"PROCESS SPAMC/1.5\r\nContent-length: %d\r\n\r\n" % len(raw) + raw)
            answer = b"".join(iter(lambda: connection.recv(65536), b""))
        if not answer or answer.startswith(b"SPAMD/1.0 69 "):
            return False
        head, _, content = answer.partition(b"\r\n\r\n")
        assert b"Content-length: %d\r\n" % len(content) in head + b"\r\n"
        assert OWN_ID.findall(content) == [id_of(raw).encode()]
        return True


class Milter(Client):
    """Each connection has three messages, as that of an SMTP client may have."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self._connection: socket.socket | None = None
        self._sent = 0

    def send(self, raw: bytes) -> bool:
        try:
            if self._connection is None:
                self._connection = socket.socket(socket.AF_UNIX)
                self._connection.settimeout(DEADLINE_SECONDS)
                self._connection.connect(self.address.removeprefix("unix:"))
                self._connection.sendall(wire.negotiation())
                assert self._reply().command == b"O"
                self._connection.sendall(wire.connect())
            self._connection.sendall(b"".join((wire.mail(), wire.rcpt(), *wire.content(raw), wire.END)))
            assert self._reply().command == b"c"
            replies = [self._reply()]
            while replies[-1].command != b"c":
                replies.append(self._reply())
        except (ConnectionError, EOFError, FileNotFoundError):
            self._close()
            raise
        self._sent += 1
        if self._sent % 3 == 0:
            self._close()
        assert OWN_ID.findall(b"".join(reply.data for reply in replies)) == [id_of(raw).encode()]
        return True

    def _reply(self) -> wire.Reply:
        assert self._connection is not None
        header = self._exactly(4)
        if not header:
            raise EOFError
        (reply,) = wire.parse_replies(header + self._exactly(int.from_bytes(header, "big")))
        return reply

    def _exactly(self, size: int) -> bytes:
        assert self._connection is not None
        data = b""
        while len(data) < size and (piece := self._connection.recv(size - len(data))):
            data += piece
        assert len(data) in {0, size}, "half a reply"
        return data

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None


class Dovecot(Client):
    def send(self, raw: bytes) -> bool:
        answer = report(Path(self.address.removeprefix("unix:")), raw)
        assert answer in {TAKEN, REFUSED, b""}
        return answer == TAKEN


class Pipe(Client):
    """``nbstream-filter``: without an answer the message passes as it came, and standard error says why."""

    def send(self, raw: bytes) -> bool:
        words: list[str | Path] = [
            SCRIPT,
            "--socket",
            self.address.removeprefix("unix:"),
            "--timeout",
            str(DEADLINE_SECONDS),
        ]
        done = subprocess.run(words, input=raw, capture_output=True, timeout=DEADLINE_SECONDS, check=False)
        assert done.returncode == 0
        if done.stdout == raw:
            assert done.stderr.startswith(b"nbstream-filter: ")
            return False
        assert (OWN_ID.findall(done.stdout), done.stderr) == ([id_of(raw).encode()], b"")
        assert done.stdout.endswith(raw)
        return True


def test_reloads_and_a_drain_under_load_lose_double_and_garble_nothing(tmp_path: Path, redis_binary: Path) -> None:
    site = Site(tmp_path)
    tcp = dict.fromkeys(("smtp", "lmtp", "http"), "'127.0.0.1:0'")
    unix = {name: f"'unix:{tmp_path}/{name}'" for name in ("spamd", "milter", "dovecot")}
    listeners = ", ".join(f"{name}: {{listen: {listen}}}" for name, listen in (tcp | unix).items())
    site.write(listeners=listeners)
    with DaemonProcess(site.file) as daemon:
        clients: dict[str, Client] = {
            "smtp": Smtp(daemon.address("smtp")),
            "lmtp": Lmtp(daemon.address("lmtp")),
            "http": Http(daemon.address("http")),
            "milter": Milter(daemon.address("milter")),
            "dovecot": Dovecot(daemon.address("dovecot")),
        }
        spamd, pipe = Spamd(daemon.address("spamd")), Pipe(daemon.address("spamd"))
        all_clients = [*clients.values(), spamd, pipe]
        for client in all_clients:
            client.start()
        try:
            for number in range(RELOADS):
                site.write(f"verdict: {{spam: 0.9{number}}}", listeners=listeners)
                daemon.process.send_signal(signal.SIGHUP)
                wait_until(lambda number=number: len(logged_events(daemon, "reloaded")) > number)
            wait_until(
                lambda: all(
                    client.fault or len(client.answered) >= ANSWERS_BEFORE_THE_END for client in all_clients
                )
            )
            assert [len(client.unanswered) for client in all_clients] == [0] * len(all_clients)
            assert daemon.stop() == 0
        finally:
            for client in all_clients:
                client.ended.set()
                client.join(DEADLINE_SECONDS)
    assert [client.fault for client in all_clients] == [None] * len(all_clients)

    logged = Counter((event["listener"], event["id"]) for event in logged_events(daemon, "message"))
    for name, answered in (
        *((name, clients[name].answered) for name in ("smtp", "lmtp", "http", "milter")),
        ("spamd", spamd.answered + pipe.answered),
    ):
        assert {logged[name, id_of(raw)] for raw in answered} == {1}, name
    sent_on = clients["smtp"], clients["lmtp"]
    delivered = Counter(site.delivered())
    subjects = {subject_of(raw) for client in sent_on for raw in client.answered}
    assert set(delivered.values()) == {1}
    assert (
        subjects <= delivered.keys() <= subjects | {subject_of(raw) for each in sent_on for raw in each.unanswered}
    )

    reported = clients["dovecot"]
    with DaemonProcess(site.file):
        wait_until(lambda: measure_backlog(site.state) == SpoolBacklog())
        learned = json.loads(command("status", "--json", "-c", site.file).stdout)["learned"]["spam"]
    assert len(reported.answered) <= learned <= len(reported.answered) + len(reported.unanswered)


def subject_of(raw: bytes) -> str:
    return raw.partition(b"\r\n")[0].removeprefix(b"Subject: ").decode()
