"""Clients that teach, unlearn, relearn and undo.

Rules: a message of a teacher belongs to him alone, and he waits for each answer before the next attempt; what the
history must say of it then follows from his answers. The messages of a crowd are taught by several clients at
once.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

from nbstream.listeners.dovecot.spool import measure_backlog
from tests.harness.waiting import until
from tests.soak.chaos.deliveries import quarantine_receptions
from tests.soak.chaos.journal import ACKNOWLEDGEMENTS, FeedbackOutcome
from tests.soak.chaos.site import Host, Site
from tests.soak.chaos.streams import StreamClient
from tests.soak.chaos.teaching import SpooledLesson, Teaching, key_of

_PAUSE_SECONDS = 0.1
_RETRY_SECONDS = 0.5
_OWN_NUMBERS = 1_000_000  # a teacher has the numbers from a multiple of it on
_CROWD_NUMBERS = 900_000_000
_BULK_NUMBERS = 800_000_000
_PROBE_NUMBERS = 700_000_000
_SPOOL_NUMBERS = 600_000_000
_SPOOL_SECONDS = 120.0  # for what waits to be learned, after the last fault
_PROBES = 10
_CROWD_SIZE = 4
LABELS = ("spam", "ham", "spam", "ham", None)


class Teachers:
    """All who teach, until ``finishing`` is set; ``numbers`` are the messages that anybody has tried to teach."""

    def __init__(self, site: Site, stream: StreamClient, finishing: asyncio.Event, seed: int) -> None:
        self._site = site
        self._stream = stream
        self._finishing = finishing
        self._seed = seed
        self.teaching = Teaching(site.journal, site.folder / "taught")
        self._probe = _PROBE_NUMBERS
        self.numbers: set[int] = set()
        self.crowd_keys: set[str] = set()

    async def run(self, teachers: int) -> None:
        """Teach until the end; what has begun is ended."""
        async with asyncio.TaskGroup() as group:
            for teacher in range(1, teachers + 1):
                group.create_task(self._teach_own(teacher))
            group.create_task(self._teach_in_crowds())
            group.create_task(self._teach_by_commands())
            group.create_task(self._report_to_spools())
            group.create_task(self._release())
            group.create_task(self._check())

    async def can_teach(self, host: Host) -> bool:
        """Return whether a host acknowledges some lessons in a row, as it must after the last fault."""
        for _ in range(_PROBES):
            self._probe += 1
            self.numbers.add(self._probe)
            if await self.teaching.by_http(host, self._probe, "spam") not in ACKNOWLEDGEMENTS:
                return False
        return True

    async def _teach_own(self, teacher: int) -> None:
        generator = random.Random(f"{self._seed} teacher {teacher}")
        first = last = teacher * _OWN_NUMBERS
        while not self._finishing.is_set():
            if last == first or generator.random() < 0.5:
                last += 1
                number = last
            else:
                number = generator.randrange(max(first, last - 30), last) + 1
            self.numbers.add(number)
            label = generator.choice(LABELS)
            attempts = 1 if generator.random() < 0.2 else 20  # some leave it at the first failure
            for _ in range(attempts):
                if await self._teach_once(generator, number, label) in ACKNOWLEDGEMENTS:
                    break
                await asyncio.sleep(_RETRY_SECONDS)
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _teach_once(self, generator: random.Random, number: int, label: str | None) -> FeedbackOutcome:
        host = generator.choice(list(self._site.hosts.values()))
        teaching = self.teaching
        ways: list[Callable[[], Awaitable[FeedbackOutcome]]] = [
            lambda: teaching.by_http(host, number, label),
            lambda: teaching.by_spamd(host, number, label),
        ]
        if label:
            ways += [
                lambda: teaching.by_feedback_mail(host, number, label),
                lambda: self._stream.learn(number, label),
            ]
        elif generator.random() < 0.2:
            ways = [lambda: teaching.by_undo(host, number)]
        return await generator.choice(ways)()

    async def _teach_in_crowds(self) -> None:
        """Let several clients teach one message at once, with different labels, now and then."""
        generator, number = random.Random(f"{self._seed} crowd"), _CROWD_NUMBERS
        while not self._finishing.is_set():
            number += generator.randrange(2)
            self.numbers.add(number)
            self.crowd_keys.add(key_of(number))
            async with asyncio.TaskGroup() as group:
                for _ in range(_CROWD_SIZE):
                    host = generator.choice(list(self._site.hosts.values()))
                    group.create_task(self.teaching.by_http(host, number, generator.choice(LABELS)))
            await asyncio.sleep(2.0)

    async def _teach_by_commands(self) -> None:
        """Teach some messages by one command, now and then; some commands are killed."""
        generator, first = random.Random(f"{self._seed} commands"), _BULK_NUMBERS
        while not self._finishing.is_set():
            if generator.random() < 0.6:
                first += 100
            numbers = range(first, first + generator.randrange(2, 20))
            self.numbers.update(numbers)
            kill_after = generator.uniform(0.3, 1.5) if generator.random() < 0.3 else None
            host = generator.choice(list(self._site.hosts.values()))
            await self.teaching.by_command(host, numbers, generator.choice(LABELS), kill_after)
            await asyncio.sleep(4.0)

    async def _report_to_spools(self) -> None:
        """Report messages at the hosts; each that was taken must be learned once, and none be set aside."""
        generator, hosts = random.Random(f"{self._seed} spool"), list(self._site.hosts.values())
        reported: list[SpooledLesson] = []
        while not self._finishing.is_set():
            number, label = _SPOOL_NUMBERS + len(reported), generator.choice(("spam", "ham"))
            self.numbers.add(number)
            reported.append(await self.teaching.by_spool(generator.choice(hosts), number, label))
            await asyncio.sleep(_PAUSE_SECONDS)
        try:
            await until(lambda: not any(measure_backlog(host.state).waiting for host in hosts), _SPOOL_SECONDS)
        except TimeoutError:
            self._site.journal.add_problem(f"messages wait in a spool {_SPOOL_SECONDS:.0f} s after the last fault")
        for host in hosts:
            if failed := measure_backlog(host.state).failed:
                self._site.journal.add_problem(f"host {host.name} has set {failed} messages aside")
        for lesson in reported:
            self.teaching.write_spooled(lesson)

    async def _release(self) -> None:
        """Release a message of a quarantine, now and then."""
        generator = random.Random(f"{self._seed} releases")
        while not self._finishing.is_set():
            host = generator.choice(list(self._site.hosts.values()))
            senders = sorted(message.sender for message in quarantine_receptions(host.quarantine))
            if senders:
                number = int(generator.choice(senders).partition(".")[0].removeprefix("m"))
                self.numbers.add(number)
                await self.teaching.by_release(host, number)
            await asyncio.sleep(2.0)

    async def _check(self) -> None:
        """Check messages over HTTP; an answer must be about the message that was asked about."""
        generator, journal = random.Random(f"{self._seed} checks"), self._site.journal
        while not self._finishing.is_set():
            host, number = generator.choice(list(self._site.hosts.values())), generator.randrange(500)
            try:
                status, answer = await host.check(number)
            except (OSError, EOFError):
                journal.checks["no answer"] += 1
            else:
                journal.checks[str(status)] += 1
                if status == 200 and answer["id"] != key_of(number):
                    journal.add_problem(f"a check of {key_of(number)} is answered about {answer['id']}")
            await asyncio.sleep(_PAUSE_SECONDS)
