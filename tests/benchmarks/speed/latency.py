"""Waits at a tenth, half and nine tenths of the highest rate of a listener, with messages at random moments.

The highest rate is measured just before, with the same client over four connections. CPU shares and the client's
own waits are in the figures: both run on the same machine. Beside the waits stand those of a queue, simulated: its
service times are those of messages that came one after another, and its messages come at random moments too.

Then waits of checks at half of the highest rate while lessons come too, beside those without, in pairs of turns.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import uvloop

from tests.benchmarks.capacity.queueing import simulate_load
from tests.benchmarks.speed import clients
from tests.benchmarks.speed.bench import Bench
from tests.benchmarks.speed.daemons import Daemon
from tests.benchmarks.speed.figures import OURS, percentile
from tests.benchmarks.speed.listeners import relaying, smtp_requests
from tests.benchmarks.speed.pairs import Side, measure_pairs
from tests.benchmarks.speed.plan import (
    CHECKS_BESIDE_LESSONS,
    CONNECTIONS,
    HTTP,
    MILLISECONDS,
    NO_LESSONS,
    PERCENTILES,
    QUEUE,
    RATE,
    SHARES,
    SMTP,
    TIMES,
)


def run(bench: Bench) -> None:
    """Measure two listeners of the same daemon."""
    with relaying(bench) as (ours, _):

        async def http() -> clients.Connection:
            return await clients.Http.to(ours.address("http"))

        async def smtp() -> clients.Connection:
            return await clients.Smtp.greeted(ours.address("smtp"))

        checks = [clients.Http.request("/checkv2", path.read_bytes()) for _, path in bench.checked]
        uvloop.run(_measure(bench, HTTP, http, checks))
        uvloop.run(_measure(bench, SMTP, smtp, smtp_requests(bench)))
        uvloop.run(_beside_lessons(bench, ours, http, checks))


async def _measure(bench: Bench, listener: str, connect: clients.Connect, requests: Sequence[bytes]) -> None:
    seconds = bench.scale.seconds
    await clients.for_seconds(connect, requests, CONNECTIONS, min(1.0, seconds))
    alone = await clients.for_seconds(connect, requests, 1, seconds)
    capacity = (await clients.for_seconds(connect, requests, CONNECTIONS, seconds)).rate
    bench.record(f"{listener}, all it can do", RATE, capacity)
    for share in SHARES:
        load = await clients.at_rate(connect, requests, share * capacity, 1.6 * seconds)
        milliseconds = {name: 1000 * percentile(load.waits, part) for name, part in PERCENTILES.items()}
        for name, value in milliseconds.items():
            bench.record(f"{listener} at {share:.0%}, {name}", MILLISECONDS, value)
        times = f"{listener} at {share:.0%}, p99 of p50"
        bench.record(times, TIMES, milliseconds["p99"] / milliseconds["p50"])
        queue = simulate_load(alone.waits, share)
        bench.record(times, TIMES, queue.p99 / queue.p50, who=QUEUE)


async def _beside_lessons(bench: Bench, ours: Daemon, http: clients.Connect, checks: Sequence[bytes]) -> None:
    """Measure checks at half of the highest rate, with lessons of messages that the model does not know."""
    rate, seconds = bench.scale.lessons_a_second, bench.scale.pair_seconds
    unseen = bench.unseen[bench.scale.checked :]
    lessons = itertools.cycle(clients.Http.request(f"/learn{label}", path.read_bytes()) for label, path in unseen)

    @asynccontextmanager
    async def learning() -> AsyncIterator[None]:
        mine = list(itertools.islice(lessons, round(1.5 * rate * seconds)))  # more than come
        coming = asyncio.create_task(clients.at_rate(http, mine, rate, seconds))
        yield
        await coming

    side = Side(OURS, ours.server, http, learning)
    await measure_pairs(bench, CHECKS_BESIDE_LESSONS, side, Side(NO_LESSONS, ours.server, http), checks)
