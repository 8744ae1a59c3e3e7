"""The page CAPACITY.md: what was measured and simulated, and what follows for more machines."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tests.benchmarks.capacity.measurements import DAY_SECONDS, FEEDBACK_SHARES, PRIMARY_SHARE, Measurements
from tests.benchmarks.capacity.open_loop import ComparedLoad
from tests.benchmarks.capacity.queueing import LOADS, simulate_load
from tests.benchmarks.capacity.replicas import ReplicaCosts

HOST_WORKERS = 8
MILLIONS_A_DAY = (1, 10, 100, 1000)
BUSY_HOUR = 2.5
WORKER_LOAD = 0.5
LESSON_RATES = (1, 10, 100)
REPLICA_NUMBERS = (0, 2, 5)

TEXT = """\
# Capacity

Written by `python -m tests.benchmarks.capacity`. The mail is generated, with sizes and numbers of tokens near
those of TREC 2007. If the load average before the run is not near 0, others used the machine: times by the
clock are then much worse than on a quiet machine, CPU time somewhat worse. What is computed and not measured is
called so.

{machine}
## One machine

What a check, a lesson and their consequences cost, as `nbstream bench` measures it. Redis is the embedded one,
which syncs each lesson to disk.

{costs}
## One worker, by the simulation of its queue

Messages come at random moments (a Poisson process). A day is one with an even load.

{loads}
## The simulation beside a real run

One worker and its HTTP listener on this machine, beside the client and Redis, in milliseconds. Messages come at
random moments, at a share of the capacity, which is measured before and after each run. Of two runs the one
with the steadier capacity is here; where it still differs much, the machine had other work meanwhile, and the
row says little about the simulation. The simulated service times are the round trips of the messages through
one connection, measured just before.

{comparison}
## Eight workers

On TCP each worker has its own connections, so its own queue, and the latency is that of one worker. On a unix
socket the next connection goes to a worker that is free: a common queue. Simulated, in milliseconds.

{queues}
## Hosts

Computed: million messages a day, if the load were even. A host has {workers} workers.

{hosts}
## What mail needs

Computed. The busy hour has {busy} times the messages of an even day, and the workers are at 50 % load in it.
The lessons, the core of the primary and the changes that it sends to all mirrors are those of the busy hour,
with one model. Where that is more than {planned:.0%} of a core, the mail needs several models, on as many
primaries of a cluster.

{needs}
## Mirrors

Computed: how many mirrors {planned:.0%} of the core of a primary feeds, and how many where they read from
replicas as well. A replica costs the primary {replication} µs of CPU for each lesson, and takes {replica} µs
itself.

{mirrors}"""


@dataclass(frozen=True, slots=True)
class Capacity:
    """All results of a run; ``comparisons`` is in the order in which they ran."""

    facts: Mapping[str, str]
    measurements: Measurements
    comparisons: Sequence[ComparedLoad]
    replicas: ReplicaCosts


def page(capacity: Capacity) -> str:
    """Return the page."""
    return TEXT.format(
        machine=_table(("", ""), capacity.facts.items()),
        costs=_table(("", "", ""), _cost_rows(capacity.measurements)),
        loads=_table(
            ("load", "messages a second", "a day, million", "p50 ms", "p99 ms"), _load_rows(capacity.measurements)
        ),
        comparison=_table(
            (
                "load",
                "messages a second",
                "capacity before and after",
                "p50 simulated",
                "p50 measured",
                "p99 simulated",
                "p99 measured",
            ),
            _comparison_rows(capacity.comparisons),
        ),
        queues=_table(
            ("load", "own queues p50", "own queues p99", "common queue p50", "common queue p99"),
            _queue_rows(capacity.measurements),
        ),
        workers=HOST_WORKERS,
        hosts=_table(
            ("", *(f"at {load:.0%} load" for load in LOADS)),
            _host_rows(capacity.measurements),
        ),
        busy=BUSY_HOUR,
        needs=_table(
            (
                "messages a day",
                "labelled",
                "workers",
                "lessons a second",
                "core of one primary",
                "changes MB/s",
                "models",
            ),
            _need_rows(capacity.measurements),
        ),
        planned=PRIMARY_SHARE,
        replication=_microseconds(_replication_cost(capacity.replicas)),
        replica=_microseconds(capacity.replicas.replica),
        mirrors=_table(
            ("lessons a second", *(_replica_heading(number) for number in REPLICA_NUMBERS)),
            _mirror_rows(capacity.measurements, capacity.replicas),
        ),
    )


def _cost_rows(measured: Measurements) -> Iterable[Sequence[str]]:
    check, lesson, remembered = measured.check, measured.lesson, measured.remembered
    yield "check, alone", _milliseconds(check.mean), "ms CPU, mean"
    yield "check, alone, p50", _milliseconds(check.quantile(0.5)), "ms CPU"
    yield "check, alone, p99", _milliseconds(check.quantile(0.99)), "ms CPU"
    yield "check through HTTP, the worker", _milliseconds(check.worker), "ms CPU, mean"
    yield "lesson until it is on disk, p50", _milliseconds(lesson.quantile(0.5)), "ms"
    yield "lesson until it is on disk, p99", _milliseconds(lesson.quantile(0.99)), "ms"
    yield "lesson, Redis", _milliseconds(lesson.redis), "ms CPU"
    yield "lessons by several at once", f"{lesson.most_per_second:,.0f}", "a second"
    yield "change on the stream", f"{lesson.change_bytes:,.0f}", "bytes"
    yield "ledger entry", f"{lesson.ledger_bytes:,.0f}", "bytes of Redis"
    for number, cost in measured.mirrors.redis.items():
        yield f"change, Redis, for each, with mirrors: {number}", _microseconds(cost), "µs CPU"
    yield "idle mirror, Redis", _microseconds(measured.mirrors.idle), "µs CPU a second"
    yield "change, a worker", _microseconds(measured.mirrors.worker), "µs CPU"
    yield "remembered message, Redis", _microseconds(remembered.redis), "µs CPU"
    yield "remembered message", f"{remembered.stored_bytes:,.0f}", "bytes of Redis"
    yield "token, a worker", f"{measured.tokens.worker:.0f}", "bytes"
    yield "token, Redis", f"{measured.tokens.redis:.0f}", "bytes"


def _load_rows(measured: Measurements) -> Iterable[Sequence[str]]:
    for point in measured.loads():
        day = point.rate * DAY_SECONDS / 1e6
        yield (
            f"{point.load:.0%}",
            f"{point.rate:,.0f}",
            f"{day:,.1f}",
            _milliseconds(point.p50),
            _milliseconds(point.p99),
        )


def _comparison_rows(comparisons: Sequence[ComparedLoad]) -> Iterable[Sequence[str]]:
    for at in comparisons:
        values = (at.simulated_p50, at.measured_p50, at.simulated_p99, at.measured_p99)
        capacities = f"{at.capacity_before:,.0f}, {at.capacity_after:,.0f}"
        yield f"{at.load:.0%}", f"{at.rate:,.0f}", capacities, *(f"{value:.1f}" for value in values)


def _queue_rows(measured: Measurements) -> Iterable[Sequence[str]]:
    services = measured.check.service_seconds
    for load in LOADS:
        own, common = simulate_load(services, load), simulate_load(services, load, workers=HOST_WORKERS)
        yield f"{load:.0%}", *(_milliseconds(value) for value in (own.p50, own.p99, common.p50, common.p99))


def _host_rows(measured: Measurements) -> Iterable[Sequence[str]]:
    sizes = {
        "one worker": 1,
        f"one host, {HOST_WORKERS} workers": HOST_WORKERS,
        f"ten hosts, {10 * HOST_WORKERS} workers": 10 * HOST_WORKERS,
        f"thirty hosts, {30 * HOST_WORKERS} workers": 30 * HOST_WORKERS,
    }
    for name, workers in sizes.items():
        yield name, *(f"{workers * measured.worker_rate(load) * DAY_SECONDS / 1e6:,.0f}" for load in LOADS)


def _need_rows(measured: Measurements) -> Iterable[Sequence[str]]:
    for million, share in itertools.product(MILLIONS_A_DAY, FEEDBACK_SHARES):
        rate = BUSY_HOUR * million * 1e6 / DAY_SECONDS
        workers = math.ceil(rate / measured.worker_rate(WORKER_LOAD))
        load = WORKER_LOAD * rate / (workers * measured.worker_rate(WORKER_LOAD))
        lessons = rate * share
        yield (
            f"{million:,} million",
            f"{share:.1%}",
            f"{workers:,}",
            f"{lessons:,.2g}" if lessons < 10 else f"{lessons:,.0f}",
            f"{measured.primary_share(workers, share, load):.1%}",
            f"{lessons * workers * measured.lesson.change_bytes / 1e6:,.1f}",
            f"{measured.models_needed(workers, share, load)}",
        )


def _mirror_rows(measured: Measurements, replicas: ReplicaCosts) -> Iterable[Sequence[str]]:
    for rate in LESSON_RATES:
        yield f"{rate}", *(f"{mirrors(measured, replicas, rate, number):,}" for number in REPLICA_NUMBERS)


def mirrors(measured: Measurements, replicas: ReplicaCosts, lessons: float, number: int) -> int:
    """Return how many mirrors a primary and that many replicas feed, with mirrors spread over all of them."""
    each = lessons * measured.mirrors.redis_per_mirror + math.exp(-lessons) * measured.mirrors.idle
    primary = PRIMARY_SHARE - lessons * (measured.lesson.redis + number * _replication_cost(replicas))
    replica = PRIMARY_SHARE - lessons * replicas.replica
    return math.floor(max(0.0, primary) / each) + number * math.floor(max(0.0, replica) / each)


def _replication_cost(replicas: ReplicaCosts) -> float:
    """Return the CPU seconds of the primary for a lesson and one replica."""
    most = max(replicas.primary)
    return max(0.0, replicas.primary[most] - replicas.primary[0]) / most if most else 0.0


def _replica_heading(number: int) -> str:
    return f"with {number} replicas" if number else "one primary"


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _milliseconds(seconds: float) -> str:
    return f"{1000 * seconds:.3g}" if seconds < 1 else f"{1000 * seconds:,.0f}"


def _microseconds(seconds: float) -> str:
    return f"{1e6 * seconds:,.0f}"
