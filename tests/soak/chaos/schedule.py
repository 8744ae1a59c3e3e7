"""The schedule: which fault begins when, at what, and for how long. A pure function of the seed.

Rules: a fault of each kind comes before any kind comes twice, so that a short run has as many kinds as a long one.
The faults are spread evenly, each at a random moment of its share of the time. No event ends after the run.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

HOSTS = ("a", "b")
"""Host a has two workers and relays to an SMTP server, host b has one process and a Maildir on a small disk."""


class Kind(StrEnum):
    """The kinds of events; the text is the one in the event log and in the table."""

    KILL_DAEMON = "daemon: SIGKILL to all processes"
    TERMINATE_DAEMON = "daemon: SIGTERM, started again"
    STOP_DAEMON = "daemon: SIGSTOP, later SIGCONT"
    KILL_SUPERVISOR = "supervisor: SIGKILL"
    KILL_WORKER = "worker: SIGKILL"
    TERMINATE_WORKER = "worker: SIGTERM"
    STOP_WORKER = "worker: SIGSTOP, later SIGCONT"
    ROLLING_RESTART = "rolling restart"
    RELOAD = "reload with changed thresholds"
    REFUSED_RELOAD = "reload of a broken file"
    KILL_REDIS = "Redis: SIGKILL"
    TERMINATE_REDIS = "Redis: SIGTERM"
    STOP_REDIS = "Redis: SIGSTOP, later SIGCONT"
    REWRITE_AND_KILL_REDIS = "Redis: SIGKILL while it rewrites its AOF"
    FULL_REDIS_MEMORY = "Redis: out of memory"
    FULL_REDIS_DISK = "Redis: its disk is full"
    FLUSH_SCRIPTS = "Redis: forgets its scripts"
    CLOCK_JUMP = "Redis: its clock was ahead"
    KILL_CLIENTS = "Redis: CLIENT KILL"
    CUT_LINK = "connection to Redis: cut"
    LOSE_REQUESTS = "connection to Redis: breaks before requests"
    LOSE_REPLIES = "connection to Redis: breaks before replies"
    HANG_REPLIES = "connection to Redis: replies never come"
    CUT_REPLIES = "connection to Redis: breaks within replies"
    SLOW_LINK = "connection to Redis: slow"
    PARTITION = "connection to Redis: none"
    HOP_REFUSES = "next hop: refuses connections"
    HOP_HANGS = "next hop: hangs"
    HOP_DEFERS = "next hop: 451"
    HOP_DIES_AFTER_DATA = "next hop: dies after DATA, before its 250"
    HOP_CUTS = "next hop: cuts all connections"
    FULL_MAIL_DISK = "Maildir: its disk is full"


@dataclass(frozen=True, slots=True)
class Traits:
    """Which targets a kind has, and the shortest and longest time that it lasts, in seconds (0 = a moment)."""

    targets: Sequence[str]
    seconds: tuple[float, float] = (0.0, 0.0)


_REDIS, _HOP, _ALL = ("redis",), ("hop",), ("all",)

TRAITS = {
    Kind.KILL_DAEMON: Traits(HOSTS),
    Kind.TERMINATE_DAEMON: Traits(HOSTS),
    Kind.STOP_DAEMON: Traits(HOSTS, (0.5, 6.0)),
    Kind.KILL_SUPERVISOR: Traits(("a",)),
    Kind.KILL_WORKER: Traits(("a",)),
    Kind.TERMINATE_WORKER: Traits(("a",)),
    Kind.STOP_WORKER: Traits(("a",), (0.5, 6.0)),
    Kind.ROLLING_RESTART: Traits(_ALL),
    Kind.RELOAD: Traits(HOSTS),
    Kind.REFUSED_RELOAD: Traits(HOSTS),
    Kind.KILL_REDIS: Traits(_REDIS, (0.0, 3.0)),
    Kind.TERMINATE_REDIS: Traits(_REDIS, (0.0, 3.0)),
    Kind.STOP_REDIS: Traits(_REDIS, (0.5, 5.0)),
    Kind.REWRITE_AND_KILL_REDIS: Traits(_REDIS, (0.0, 0.5)),
    Kind.FULL_REDIS_MEMORY: Traits(_REDIS, (0.5, 4.0)),
    Kind.FULL_REDIS_DISK: Traits(_REDIS, (0.5, 4.0)),
    Kind.FLUSH_SCRIPTS: Traits(_REDIS),
    Kind.CLOCK_JUMP: Traits(_REDIS, (1.0, 3600.0)),
    Kind.KILL_CLIENTS: Traits(_REDIS),
    Kind.CUT_LINK: Traits(HOSTS),
    Kind.LOSE_REQUESTS: Traits(HOSTS, (0.2, 2.0)),
    Kind.LOSE_REPLIES: Traits(HOSTS, (0.2, 2.0)),
    Kind.HANG_REPLIES: Traits(HOSTS, (0.2, 2.0)),
    Kind.CUT_REPLIES: Traits(HOSTS, (0.2, 2.0)),
    Kind.SLOW_LINK: Traits(HOSTS, (0.5, 4.0)),
    Kind.PARTITION: Traits(HOSTS, (0.5, 6.0)),
    Kind.HOP_REFUSES: Traits(_HOP, (0.5, 4.0)),
    Kind.HOP_HANGS: Traits(_HOP, (0.5, 6.0)),
    Kind.HOP_DEFERS: Traits(_HOP, (0.5, 3.0)),
    Kind.HOP_DIES_AFTER_DATA: Traits(_HOP, (0.3, 2.0)),
    Kind.HOP_CUTS: Traits(_HOP),
    Kind.FULL_MAIL_DISK: Traits(("b",), (0.5, 4.0)),
}
"""The targets and times of each kind. The seconds of a jump of the clock are how far it was ahead."""


DISK_KINDS = frozenset({Kind.FULL_REDIS_DISK, Kind.FULL_MAIL_DISK})
"""The kinds that need the right to mount a small file system."""

_ANSWERED_KINDS = frozenset({Kind.FULL_REDIS_MEMORY, Kind.FLUSH_SCRIPTS, Kind.CLOCK_JUMP})
_PAUSING_KINDS = frozenset({Kind.STOP_DAEMON, Kind.STOP_WORKER})  # their deadlines pass meanwhile
REPLY_LOSING_KINDS = (
    frozenset(kind for kind in Kind if kind.startswith(("connection to Redis", "Redis: "))) | _PAUSING_KINDS
) - _ANSWERED_KINDS
"""The kinds by which a host may miss the reply to what Redis has carried out, so that it asks again."""


@dataclass(frozen=True, slots=True)
class Event:
    """One fault: ``at`` seconds after the begin of the run it begins; ``draw`` decides what is left to chance."""

    number: int
    at: float
    kind: Kind
    target: str
    seconds: float
    draw: int


def plan(seed: int, seconds: float, count: int, kinds: Collection[Kind]) -> tuple[Event, ...]:
    """Return the schedule of a run: ``count`` events of these ``kinds``, in the order in which they begin."""
    generator = random.Random(seed)
    share = seconds / count
    return tuple(
        _event(generator, number, (number + generator.random()) * share, kind)
        for number, kind in zip(range(count), _decks(generator, sorted(kinds)), strict=False)
    )


def _decks(generator: random.Random, kinds: Sequence[Kind]) -> Iterator[Kind]:
    """Yield all kinds in a random order, then again in another one, without an end."""
    while True:
        yield from generator.sample(kinds, len(kinds))


def _event(generator: random.Random, number: int, at: float, kind: Kind) -> Event:
    traits = TRAITS[kind]
    return Event(
        number,
        round(at, 3),
        kind,
        generator.choice(traits.targets),
        round(generator.uniform(*traits.seconds), 3),
        generator.randrange(1 << 30),
    )
