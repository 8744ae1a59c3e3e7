"""Mail, lessons and stream entries that go on while Redis servers fail, and the account of what became of them.

A sender, two teachers (SMTP and HTTP) and a producer of stream entries run in threads. Each lesson is tried again
until it is acknowledged, as people and mail servers do.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

from redis import Redis
from redis.exceptions import RedisError

from nbstream.mail.message import Message
from nbstream.store.connection import ConnectionOptions, open_client
from nbstream.store.model.model import Model
from tests.harness.algebra import live_entries, stored, summed
from tests.harness.daemon import DaemonProcess, wait_until
from tests.harness.redis.server_process import ServerProcess
from tests.integration.test_life import send

SPAM_ADDRESS = "spam@nbstream.invalid"
IN, OUT, DEAD = (f"nbstream:{{default}}:{name}" for name in ("in", "out", "dead"))

_LESSON_SECONDS = 60.0  # of trying: longer than any failover here
_LEDGER_SECONDS = 30 * 86_400
_STREAM_SECONDS = 0.05
_MAIL_SECONDS = 0.01


class Servers(Protocol):
    """Servers that hold a model."""

    def primary(self) -> ServerProcess:
        """Return the server that holds it now."""


@dataclass(slots=True)
class Event:
    """What happened from the begin of an event on until its end."""

    name: str
    mails: int = 0
    mails_refused: int = 0
    lessons: int = 0
    lessons_refused: int = 0
    recovery_seconds: float = 0.0


@dataclass(slots=True)
class Account:
    """What the clients have seen so far; ``acknowledged_at`` are times of the monotonic clock."""

    mails: int = 0
    mails_refused: list[str] = field(default_factory=list)
    acknowledged: list[str] = field(default_factory=list)
    acknowledged_at: list[float] = field(default_factory=list)
    lesson_refusals: list[str] = field(default_factory=list)
    entries: list[str] = field(default_factory=list)
    failures: list[BaseException] = field(default_factory=list)


def letter(name: str) -> bytes:
    """A message that no other one equals."""
    words = " ".join(f"word{sum(name.encode())}x{n}" for n in range(20))
    return f"Message-ID: <{name}@example.org>\r\nSubject: {name}\r\n\r\n{words} {name}\r\n".encode()


class Traffic:
    """The clients of ``daemon``; on leaving they stop, and what failed in one of them is raised."""

    def __init__(self, daemon: DaemonProcess, servers: Servers, *, stream: bool = False) -> None:
        self.account = Account()
        self.events: list[Event] = []
        self._daemon, self._servers = daemon, servers
        self._stop = threading.Event()
        clients: list[Callable[[], None]] = [self._send_mail, self._teach_by_smtp, self._teach_by_http]
        if stream:
            clients.append(self._add_entries)
        self._threads = [threading.Thread(target=self._run, args=(client,)) for client in clients]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Let all clients end; each teacher does that once his last lesson is acknowledged."""
        self._stop.set()
        for thread in self._threads:
            thread.join()
        if self.account.failures:
            raise self.account.failures[0]

    def _run(self, client: Callable[[], None]) -> None:
        try:
            client()
        except BaseException as error:  # noqa: BLE001  # of a thread: the test's own raises it
            self.account.failures.append(error)

    def wait_for_lessons(self, count: int) -> None:
        """Wait until this many more lessons are acknowledged."""
        goal = len(self.account.acknowledged) + count
        wait_until(lambda: len(self.account.acknowledged) >= goal or self.account.failures, 2 * _LESSON_SECONDS)

    @contextmanager
    def event(self, name: str) -> Iterator[Event]:
        """Record what happens within: the body lets something fail, and waits until all is well again.

        It ends when ten more lessons have been acknowledged. The recovery is the longest time without one.
        """
        account, event = self.account, Event(name)
        mails, refused = account.mails, len(account.mails_refused)
        lessons, lesson_refusals = len(account.acknowledged), len(account.lesson_refusals)
        begin = time.monotonic()
        yield event
        self.wait_for_lessons(10)
        event.mails, event.mails_refused = account.mails - mails, len(account.mails_refused) - refused
        event.lessons = len(account.acknowledged) - lessons
        event.lessons_refused = len(account.lesson_refusals) - lesson_refusals
        times = [begin, *(at for at in account.acknowledged_at[lessons:] if at > begin)]
        event.recovery_seconds = max(later - earlier for earlier, later in itertools.pairwise(times))
        self.events.append(event)

    def _send_mail(self) -> None:
        for number in itertools.count():
            if self._stop.wait(_MAIL_SECONDS):
                return
            reply = send(self._daemon, letter(f"mail-{number}"))
            self.account.mails += 1
            if not reply.startswith("250 "):
                self.account.mails_refused.append(reply)

    def _teach_by_smtp(self) -> None:
        def teach(name: str) -> str:
            return send(self._daemon, letter(name), SPAM_ADDRESS)

        self._teach("smtp", teach, is_acknowledged="250 ", is_refused="451 ")

    def _teach_by_http(self) -> None:
        def teach(name: str) -> str:
            request = urllib.request.Request(
                f"http://{self._daemon.address('http')}/v1/learn?label=ham",
                data=letter(name),
                method="POST",
            )
            try:
                with urllib.request.urlopen(request, timeout=_LESSON_SECONDS) as response:
                    return f"{response.status} {response.read().decode()}"
            except urllib.error.HTTPError as error:
                with error:
                    return f"{error.code} {error.read().decode()}"

        self._teach("http", teach, is_acknowledged="200 ", is_refused="503 ")

    def _teach(self, kind: str, teach: Callable[[str], str], *, is_acknowledged: str, is_refused: str) -> None:
        for number in itertools.count():
            name = f"{kind}-{number}"
            until = time.monotonic() + _LESSON_SECONDS
            while not (reply := teach(name)).startswith(is_acknowledged):
                assert reply.startswith(is_refused), reply
                assert time.monotonic() < until, f"{name} was refused to the end: {reply}"
                self.account.lesson_refusals.append(reply)
                self._stop.wait(_MAIL_SECONDS)
            self.account.acknowledged_at.append(time.monotonic())
            self.account.acknowledged.append(name)
            if self._stop.is_set():
                return

    def _add_entries(self) -> None:
        for number in itertools.count():
            name = f"entry-{number}"
            while not self._add_entry(name):
                self._stop.wait(_STREAM_SECONDS)
            self.account.entries.append(name)
            if self._stop.wait(_STREAM_SECONDS):
                return

    def _add_entry(self, name: str) -> bool:
        """Add an entry to the stream, and return whether a replica has it too."""
        server = self._servers.primary()
        with (
            suppress(RedisError, OSError),
            Redis(host=server.host, port=server.port, socket_timeout=1.0, single_connection_client=True) as client,
        ):
            client.xadd(IN, {"id": name, "text": f"an entry called {name}"})
            return bool(client.wait(1, 500))
        return False


@dataclass(frozen=True, slots=True)
class Audit:
    """What is in Redis at the end, compared with what was acknowledged.

    ``lost`` are the names of acknowledged lessons without a ledger entry; ``is_exact`` says whether counts and
    totals equal their sum over the ledger; ``records`` is the number of records in the history.
    """

    entries: int
    lost: list[str]
    is_exact: bool
    records: int


def audit(servers: Servers, account: Account) -> Audit:
    """Compare what the primary holds with ``account``."""
    return asyncio.run(_audit(servers.primary(), account))


async def _audit(server: ServerProcess, account: Account) -> Audit:
    async with open_client(ConnectionOptions(f"redis://{server.host}:{server.port}")) as client:
        model = Model(client, "default", _LEDGER_SECONDS)
        entries = await live_entries(model)
        lost = [name for name in account.acknowledged if Message.parse(letter(name)).key not in entries]
        records: Any = await client.xlen(model.keys.history)
        return Audit(len(entries), lost, await stored(model) == await summed(model), records)


def stream_answers(servers: Servers) -> set[str]:
    """Return the ids of all answers in the stream of answers."""
    server = servers.primary()
    with Redis(host=server.host, port=server.port) as client:
        answers: Any = client.xrange(OUT)
    return {fields[b"id"].decode() for _, fields in answers}


def table(events: list[Event]) -> str:
    """Return the events as lines of a table."""
    lines = [f"{'event':44} {'mails':>6} {'refused':>7} {'lessons':>7} {'refused':>7} {'recovery':>8}"]
    lines += [
        f"{event.name:44} {event.mails:6} {event.mails_refused:7} {event.lessons:7} {event.lessons_refused:7} "
        f"{event.recovery_seconds:6.1f} s"
        for event in events
    ]
    return "\n".join(lines)
