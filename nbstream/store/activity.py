"""Activity: how many messages got which verdict, and how long their checks took, by minute and by hour.

Rules: a check adds to numbers in memory and nothing else. One task a process adds what is new to Redis once a
second, in one round trip and one atomic step; all processes of all hosts add to the same numbers. What cannot be
written is dropped, and never written again, since nobody knows whether the first attempt arrived: no message is
ever counted twice. How many messages were dropped in which minute is a number like the others, which the next
write that succeeds adds. With the numbers a process says every ten seconds how it is. Whoever listens is told on a
channel that there is something new, and reads it again.

Numbers by minute stay for 25 hours and those by hour for eight days. Processes that are silent for ten minutes are
forgotten.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from itertools import chain
from typing import TYPE_CHECKING, Any

from redis.exceptions import NoPermissionError

from nbstream.errors import StoreForbids, StoreUnavailable
from nbstream.policy.verdict import Verdict
from nbstream.store.cancellation import stop_if_cancelled
from nbstream.store.connection import primary_of
from nbstream.store.lua import lua_script
from nbstream.store.redis_errors import readable_replies, store_errors

if TYPE_CHECKING:
    from redis.asyncio import Redis
    from redis.asyncio.client import PubSub

    from nbstream.store.model.keys import ModelKeys

_log = logging.getLogger(__name__)

UNCHECKED = "unchecked"
"""What a message counts as whose check failed, and that has no verdict therefore."""
MESSAGE_CLASSES = (*map(str, Verdict), UNCHECKED)
"""What messages are counted by: each message counts in one of these classes."""

_DROPPED = "dropped"  # the name of the messages that may be missing in the classes

MINUTE_SECONDS, HOUR_SECONDS, DAY_SECONDS = 60, 3600, 86_400
MINUTES_LIFE_SECONDS = 25 * HOUR_SECONDS
HOURS_LIFE_SECONDS = 8 * DAY_SECONDS + HOUR_SECONDS
HEARTBEAT_SECONDS = 10.0
SILENT_SECONDS = 3 * HEARTBEAT_SECONDS
"""A process that said nothing for this time hangs, is cut off from Redis, or has ended without saying so."""

_FORGOTTEN_SECONDS = 600.0
_PROCESSES_LIFE_SECONDS = HOUR_SECONDS
_WRITE_SECONDS = 1.0
_LATE_SECONDS = 120.0  # what was counted in an hour is written by then; after that the hour is remembered
_AGAIN_SECONDS = 300.0
_LEAVE_SECONDS = 1.0
_CONFIRM_SECONDS = 5.0
_MAX_GATHERED = 1000  # messages on the channel that are one piece of news
_MAX_PROCESSES = 200
_END_OF_TIME = 2**33  # in the year 2242; what is later cannot be shown everywhere
_MAX_COUNT = 1 << 63

_LATENCY_PREFIX = "t"
_LATENCY_UNITS = 16_000  # the first bucket is below 1/16 ms
LATENCY_BUCKETS = 21
"""Bucket n has what took less than 2^n sixteenths of a millisecond; the last one, below 66 s, has all that took
longer too.
"""


def bucket_limit(bucket: int) -> float:
    """Return the seconds that no duration in the bucket reaches."""
    return float(2**bucket) / _LATENCY_UNITS


class ActivityCounter:
    """What one process has counted and not yet written."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._verdicts = {verdict: [0] for verdict in Verdict}  # lists, since a verdict is hashed slowly
        self._unchecked = 0
        self._latencies = [0] * 64  # as many as durations can have bits

    def count(self, verdict: Verdict, seconds: float) -> None:
        """Count a check with its verdict and its duration."""
        self._verdicts[verdict][0] += 1
        self._latencies[int(seconds * _LATENCY_UNITS).bit_length()] += 1

    def count_unchecked(self) -> None:
        """Count a message whose check failed."""
        self._unchecked += 1

    def take(self) -> Mapping[str, int]:
        """Return what is new, by the name that it is stored under, and begin anew."""
        taken = {str(verdict): number for verdict, (number,) in self._verdicts.items() if number}
        if self._unchecked:
            taken[UNCHECKED] = self._unchecked
        last = LATENCY_BUCKETS - 1
        buckets = (*self._latencies[:last], sum(self._latencies[last:]))
        taken |= {f"{_LATENCY_PREFIX}{bucket}": number for bucket, number in enumerate(buckets) if number}
        self._begin()
        return taken


@dataclass(frozen=True, slots=True)
class ListenerConnections:
    """How many clients of a listener are connected now, and were accepted and refused since the process began."""

    open: int = 0
    accepted: int = 0
    refused: int = 0

    def __add__(self, other: ListenerConnections) -> ListenerConnections:
        """Return the sum of the connections of two processes."""
        return ListenerConnections(
            self.open + other.open, self.accepted + other.accepted, self.refused + other.refused
        )


@dataclass(frozen=True, slots=True)
class ProcessStatus:
    """What a process says of itself.

    ``worker`` is its number among the workers of the daemon, 0 where there is one process. ``lag_seconds`` is
    since when its counts in memory may not equal Redis. ``quarantined`` is the number of messages in the
    quarantine of the host, None for a process that does not count them. ``connections`` are by listener.
    """

    host: str
    worker: int
    version: str
    is_loaded: bool
    lag_seconds: float
    quarantined: int | None = None
    connections: Mapping[str, ListenerConnections] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SeenProcess:
    """A process, and when it said last how it is (seconds since the epoch)."""

    at: float
    status: ProcessStatus


class ActivityWriter:
    """Adds what a process counts to Redis.

    ``client`` must not retry by itself: what was written although the reply was lost would count twice.
    ``process`` is the name of this process, which no other process has; ``status`` returns what it says of itself.
    ``on_dropped`` is called with each number of messages that are dropped.
    """

    def __init__(
        self,
        client: Redis,
        keys: ModelKeys,
        counter: ActivityCounter,
        process: str,
        status: Callable[[], ProcessStatus],
        on_dropped: Callable[[int], object],
    ) -> None:
        self._on_written: Callable[[], object] = lambda: None
        self._keys = keys
        self._counter = counter
        self._process = process
        self._status = status
        self._on_dropped = on_dropped
        self._script = client.register_script(lua_script("activity.lua"))
        self._said_at = -math.inf
        self._is_writing = True
        self._dropped: dict[int, int] = {}  # by minute since the epoch, of the last eight days: 12,000 at most
        self.may_publish = True
        """False once Redis has refused to tell others of news: its user may not publish on the channel."""

    def report_writes_to(self, on_written: Callable[[], object]) -> None:
        """Call ``on_written`` from now on whenever Redis has taken a write."""
        self._on_written = on_written

    async def run(self) -> None:
        """Write what is new once a second, until cancelled."""
        while True:
            stop_if_cancelled()
            await asyncio.sleep(_WRITE_SECONDS)
            await self.write()

    async def write(self, now: float | None = None) -> None:
        """Write what is new, if there is anything; ``now`` is in seconds since the epoch. A failure is counted."""
        now = time.time() if now is None else now
        is_heartbeat = time.monotonic() - self._said_at >= HEARTBEAT_SECONDS
        counts = self._counter.take()
        if counts or is_heartbeat or self._dropped:
            await self._write(now, counts, _pack_status(self._status()) if is_heartbeat else "")

    async def leave(self) -> None:
        """Write what is left, and that this process ends; not longer than a second."""
        try:
            async with asyncio.timeout(_LEAVE_SECONDS):
                await self._write(time.time(), self._counter.take(), "-")
        except TimeoutError:
            _log.debug("activity: Redis was not told that this process ends")

    async def _write(self, now: float, counts: Mapping[str, int], status: str) -> None:
        minute, keys = int(now) // MINUTE_SECONDS, self._keys
        messages = sum(counts.get(name, 0) for name in MESSAGE_CLASSES)
        oldest = int(now - HOURS_LIFE_SECONDS) // MINUTE_SECONDS
        self._dropped = {at: number for at, number in self._dropped.items() if at >= oldest}
        hashes = self._hashes([(minute, counts), *((at, {_DROPPED: n}) for at, n in self._dropped.items())])
        written = False
        try:
            with store_errors(), readable_replies():
                is_published = await self._script(
                    keys=[keys.activity_processes, *(key for key, _ in hashes)],
                    args=[
                        self._process,
                        status,
                        int(now),
                        int(now - _FORGOTTEN_SECONDS),
                        _PROCESSES_LIFE_SECONDS,
                        keys.activity_channel if self.may_publish or status else "",
                        *_script_arguments(hashes),
                    ],
                )
            written = self._is_writing = True
            self._on_written()
            self._dropped.clear()
            self.may_publish = bool(is_published)
            if status:
                self._said_at = time.monotonic()
        except StoreUnavailable as error:
            if self._is_writing:  # logged once, not for each second of an outage
                _log.warning("activity is not counted now: %s", error)
            self._is_writing = False
        finally:
            if messages and not written:  # or cancelled: then it may have been written all the same
                self._dropped[minute] = self._dropped.get(minute, 0) + messages
                self._on_dropped(messages)

    def _hashes(
        self, minutes: Iterable[tuple[int, Mapping[str, int]]]
    ) -> Mapping[tuple[str, int], Mapping[str, int]]:
        """Return what to add to each hash, by its key and for how many seconds it stays."""
        hashes: defaultdict[tuple[str, int], Counter[str]] = defaultdict(Counter)
        for minute, numbers in minutes:
            hour, minute_of_hour = divmod(minute, 60)
            day, hour_of_day = divmod(hour, 24)
            by_minute = self._keys.activity_minutes(hour), MINUTES_LIFE_SECONDS
            by_hour = self._keys.activity_hours(day), HOURS_LIFE_SECONDS
            for name, number in numbers.items():
                hashes[by_minute][f"{minute_of_hour}:{name}"] += number
                hashes[by_hour][f"{hour_of_day}:{name}"] += number
        return hashes


def _script_arguments(hashes: Mapping[tuple[str, int], Mapping[str, int]]) -> Iterator[str | int]:
    """Yield for each hash how many seconds it stays, how many numbers are added, and their names and numbers."""
    for (_, life_seconds), numbers in hashes.items():
        yield from (life_seconds, len(numbers))
        yield from chain.from_iterable(numbers.items())


def _pack_status(status: ProcessStatus) -> str:
    return json.dumps(asdict(status), separators=(",", ":"))


def _read_count(value: Any) -> int:
    """Return a number as Redis counts. Raises ``ValueError``, ``TypeError`` or ``OverflowError``."""
    count = int(value)
    if not 0 <= count < _MAX_COUNT:
        raise ValueError(f"{count} is no count")
    return count


def _read_seconds(value: Any) -> float:
    """Return a time or a duration. Raises ``ValueError``, ``TypeError`` or ``OverflowError``."""
    seconds = float(value)
    if not 0 <= seconds < _END_OF_TIME:
        raise ValueError(f"{seconds} is no time")
    return seconds


def unpack_process(packed: bytes) -> SeenProcess | None:
    """Return the process; None where another version wrote something that cannot be read."""
    at, _, text = packed.partition(b" ")
    try:
        values = json.loads(text)
        connections = {
            str(name): ListenerConnections(
                *(_read_count(counts[each]) for each in ("open", "accepted", "refused"))
            )
            for name, counts in values["connections"].items()
        }
        quarantined = values["quarantined"]
        status = ProcessStatus(
            str(values["host"]),
            _read_count(values["worker"]),
            str(values["version"]),
            bool(values["is_loaded"]),
            _read_seconds(values["lag_seconds"]),
            None if quarantined is None else _read_count(quarantined),
            connections,
        )
        return SeenProcess(_read_seconds(at), status)
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError):
        return None


class ActivitySpan(StrEnum):
    """The time that is looked at: up to now."""

    HOUR = "hour"
    DAY = "day"
    WEEK = "week"

    @property
    def seconds(self) -> int:
        """Its length."""
        return {
            ActivitySpan.HOUR: HOUR_SECONDS,
            ActivitySpan.DAY: DAY_SECONDS,
            ActivitySpan.WEEK: 7 * DAY_SECONDS,
        }[self]

    @property
    def step_seconds(self) -> int:
        """The length of the steps in which it is shown: minutes, ten minutes, or hours."""
        return {ActivitySpan.HOUR: MINUTE_SECONDS, ActivitySpan.DAY: 600, ActivitySpan.WEEK: HOUR_SECONDS}[self]


@dataclass(frozen=True, slots=True)
class ActivityStep:
    """The numbers of messages by class in a step of time that begins at ``at`` (seconds since the epoch)."""

    at: int
    classes: Mapping[str, int]

    @property
    def messages(self) -> int:
        """The number of messages."""
        return sum(self.classes.values())


@dataclass(frozen=True, slots=True)
class Activity:
    """What happened in a span of time: its steps, the oldest first, and its checks by bucket of latency.

    ``dropped`` is how many messages may be missing in the steps.
    """

    span: ActivitySpan
    steps: tuple[ActivityStep, ...]
    latencies: Mapping[int, int]
    dropped: int = 0

    @property
    def totals(self) -> Mapping[str, int]:
        """The numbers of messages by class."""
        return sum_classes(self.steps)

    def latency(self, share: float) -> float | None:
        """Return the seconds that this share of the checks stayed below; None without checks."""
        wanted, seen = share * sum(self.latencies.values()), 0
        for bucket in sorted(self.latencies):
            seen += self.latencies[bucket]
            if seen >= wanted and seen:
                return bucket_limit(bucket)
        return None

    def grouped(self, start: Callable[[int], int]) -> tuple[ActivityStep, ...]:
        """Return the same in longer steps; ``start`` returns where the one begins that a moment belongs to."""
        groups: dict[int, list[ActivityStep]] = {}
        for step in self.steps:
            groups.setdefault(start(step.at), []).append(step)
        return tuple(ActivityStep(at, sum_classes(steps)) for at, steps in groups.items())


def sum_classes(steps: Iterable[ActivityStep]) -> Mapping[str, int]:
    """Return the numbers of messages by class, 0 for those that there were none of."""
    sums = dict.fromkeys(MESSAGE_CLASSES, 0)
    for step in steps:
        for name, number in step.classes.items():
            sums[name] += number
    return sums


@dataclass(slots=True)
class Slot:
    """What was counted in one minute or hour: messages by class, checks by bucket of latency, and the dropped."""

    classes: dict[str, int] = field(default_factory=dict)
    latencies: dict[int, int] = field(default_factory=dict)
    dropped: int = 0


_NAMES: Mapping[bytes, str | int] = {
    **{name.encode(): name for name in (*MESSAGE_CLASSES, _DROPPED)},
    **{f"{_LATENCY_PREFIX}{bucket}".encode(): bucket for bucket in range(LATENCY_BUCKETS)},
}


def parse_counts(fields: Mapping[bytes, bytes]) -> Mapping[int, Slot]:
    """Return the slots of a stored hash, by their number; what another version counts besides is left out.

    Raises ``ValueError`` for what is no count.
    """
    slots: dict[bytes, Slot] = {}
    for key, value in fields.items():
        number, _, name = key.partition(b":")
        counted = _NAMES.get(name)
        if counted is None:
            continue
        slot = slots.get(number)
        if slot is None:
            slot = slots[number] = Slot()
        if isinstance(counted, int):
            slot.latencies[counted] = _read_count(value)
        elif counted == _DROPPED:
            slot.dropped = _read_count(value)
        else:
            slot.classes[counted] = _read_count(value)
    return {int(number): slot for number, slot in slots.items()}


def sum_activity(span: ActivitySpan, slots: Mapping[int, Slot], slot_seconds: int, now: float) -> Activity:
    """Return the activity of the span up to ``now``; ``slots`` are by their number since the epoch.

    The last step is the one that ``now`` is in.
    """
    last = int(now) // span.step_seconds
    count = span.seconds // span.step_seconds
    classes: dict[int, dict[str, int]] = {step: {} for step in range(last - count + 1, last + 1)}
    latencies: Counter[int] = Counter()
    dropped = 0
    for number, slot in slots.items():
        sums = classes.get(number * slot_seconds // span.step_seconds)
        if sums is None:
            continue
        for name, messages in slot.classes.items():
            sums[name] = sums.get(name, 0) + messages
        latencies.update(slot.latencies)
        dropped += slot.dropped
    steps = tuple(ActivityStep(step * span.step_seconds, sums) for step, sums in classes.items())
    return Activity(span, steps, dict(latencies), dropped)


class ActivityReader:
    """Reads the activity of a model, of all processes and hosts.

    Hours and days that are over are remembered for five minutes, at most 25 + 8 of them. Then they are read
    again: a host that could not reach Redis, or whose clock is behind, may have added to them.
    """

    def __init__(self, client: Redis, keys: ModelKeys) -> None:
        self._client = client
        self._keys = keys
        self._over: dict[str, Mapping[int, Slot]] = {}
        self._over_since = 0.0

    async def read(self, span: ActivitySpan, now: float | None = None) -> tuple[Activity, Sequence[SeenProcess]]:
        """Return the activity up to ``now`` and the processes, in one round trip. Raises ``StoreUnavailable``."""
        now = time.time() if now is None else now
        is_week = span is ActivitySpan.WEEK
        key_seconds, slot_seconds = (DAY_SECONDS, HOUR_SECONDS) if is_week else (HOUR_SECONDS, MINUTE_SECONDS)
        name = self._keys.activity_hours if is_week else self._keys.activity_minutes
        first, last = int(now - span.seconds) // key_seconds, int(now) // key_seconds
        keys = {number: name(number) for number in range(first, last + 1)}
        if abs(now - self._over_since) >= _AGAIN_SECONDS:
            self._over, self._over_since = {}, now
        # Taken now: others who read meanwhile may forget it.
        found = {number: self._over[key] for number, key in keys.items() if key in self._over}
        missing = {number: key for number, key in keys.items() if number not in found}
        with store_errors(), readable_replies():
            async with self._client.pipeline(transaction=False) as pipe:
                for key in missing.values():
                    pipe.hgetall(key)
                pipe.hgetall(self._keys.activity_processes)
                *hashes, processes = await pipe.execute()
            for number, fields in zip(missing, hashes, strict=True):
                found[number] = parse_counts(fields)
                await asyncio.sleep(0)  # mail goes on: of a busy hour it takes milliseconds
        slots_a_key = key_seconds // slot_seconds
        slots = {
            number * slots_a_key + slot: counts
            for number, hour_or_day in found.items()
            for slot, counts in hour_or_day.items()
        }
        over = [number for number in missing if (number + 1) * key_seconds < now - _LATE_SECONDS]
        self._remember({keys[number]: found[number] for number in over})
        return sum_activity(span, slots, slot_seconds, now), _seen_processes(processes.values())

    def _remember(self, over: Mapping[str, Mapping[int, Slot]]) -> None:
        self._over.update(over)
        while len(self._over) > _MAX_REMEMBERED:
            del self._over[next(iter(self._over))]


_MAX_REMEMBERED = 25 + 8


def _seen_processes(packed: Iterable[bytes]) -> Sequence[SeenProcess]:
    found = [process for process in map(unpack_process, packed) if process is not None]
    found.sort(key=lambda process: (process.status.host, process.status.worker))
    return found[:_MAX_PROCESSES]


class ActivityWatch:
    """Knows when there is something new in Redis."""

    def __init__(self, subscription: PubSub, is_current: Callable[[], bool]) -> None:
        self._subscription = subscription
        self._is_current = is_current

    async def wait(self, seconds: float) -> bool:
        """Return whether something new was said within that time, once it was, and forget what else was said.

        Raises ``StoreUnavailable``, also where the primary is another server by now.
        """
        with store_errors(), readable_replies():
            is_new = await self._get(seconds)
            for _ in range(_MAX_GATHERED if is_new else 0):
                if not await self._get(0.0):
                    break
        if not self._is_current():
            raise StoreUnavailable("another Redis server answers than before")
        return is_new

    async def _get(self, seconds: float) -> bool:
        message = await self._subscription.get_message(ignore_subscribe_messages=True, timeout=seconds)
        return message is not None


@asynccontextmanager
async def watch_activity(client: Redis, keys: ModelKeys) -> AsyncIterator[ActivityWatch]:
    """Listen on the channel of the model; ``client`` must not retry by itself.

    Raises ``StoreForbids`` where the user of Redis may not listen there, else ``StoreUnavailable``.
    """
    primary = primary_of(client)
    async with client.pubsub() as subscription:
        with store_errors(), readable_replies():
            try:
                await subscription.subscribe(keys.activity_channel)
                await subscription.get_message(timeout=_CONFIRM_SECONDS)  # the confirmation
            except NoPermissionError as error:
                raise StoreForbids(f"Redis: {error}") from error
        generation = primary.generation
        yield ActivityWatch(subscription, lambda: primary.generation == generation)
