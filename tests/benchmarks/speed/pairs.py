"""Two sides in pairs of short turns, so that a difference of some percent can be seen.

Each turn has the same messages at the same moments. The sides take turns in the order A B, B A, A B, …: what
changes slowly on the machine is the same for both. A ratio is that of the two turns of a pair.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass

from tests.benchmarks.speed import clients
from tests.benchmarks.speed.bench import Bench
from tests.benchmarks.speed.figures import percentile
from tests.benchmarks.speed.plan import CONNECTIONS, CPU_MILLISECONDS, MILLISECONDS, PERCENTILES, TIMES, ratio
from tests.benchmarks.speed.processes import Served

_LEAST_SURE = 0.05


@dataclass(frozen=True, slots=True)
class Side:
    """One of two sides: the server, its client, and what else is open during its turns."""

    who: str
    server: Served
    connect: clients.Connect
    during: Callable[[], AbstractAsyncContextManager[object]] = nullcontext


MEASURES = {"CPU": CPU_MILLISECONDS, "p50": MILLISECONDS, "p99": MILLISECONDS}
"""What is measured of each turn, and its unit."""


async def measure_pairs(bench: Bench, case: str, ours: Side, other: Side, requests: Sequence[bytes]) -> None:
    """Record what messages cost on both sides, at half of the rate that the other side reaches, and the ratios."""
    scale = bench.scale
    warm = await clients.for_seconds(other.connect, requests, CONNECTIONS, min(3.0, scale.seconds))
    await clients.for_seconds(ours.connect, requests, CONNECTIONS, min(1.0, scale.seconds))
    turns: dict[str, list[dict[str, float]]] = {ours.who: [], other.who: []}
    for number in range(scale.pairs):
        for side in (ours, other) if number % 2 else (other, ours):
            async with side.during():
                turns[side.who].append(await _turn(side, requests, warm.rate / 2, scale.pair_seconds))
    for name, unit in MEASURES.items():
        values = {who: [turn[name] for turn in made] for who, made in turns.items()}
        for who, of_turns in values.items():
            bench.record(f"{case}, {name}", unit, *of_turns, who=who)
        ratios = [mine / theirs for mine, theirs in zip(values[ours.who], values[other.who], strict=True)]
        bench.record(ratio(case, name), TIMES, *ratios)
        for end, value in zip(("from", "to"), median_interval(ratios), strict=True):
            bench.record(f"{ratio(case, name)}, 95 % interval {end}", TIMES, value)


async def _turn(side: Side, requests: Sequence[bytes], rate: float, seconds: float) -> dict[str, float]:
    """Return the measures of one turn."""
    before = side.server.cpu_seconds
    load = await clients.at_rate(side.connect, requests, rate, seconds)
    cpu = side.server.cpu_seconds - before
    waits = {name: 1000 * percentile(load.waits, PERCENTILES[name]) for name in ("p50", "p99")}
    return {"CPU": 1000 * cpu / len(load.waits), **waits}


def median_interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the interval that has the median of what the values are a sample of with 95 % at least.

    Its ends are two of the values (sign test); of less than six values they are the first and the last one.
    """
    ranked, count = sorted(values), len(values)
    outside, missed = 0, 0.0
    while (missed := missed + 2 * math.comb(count, outside) / 2**count) <= _LEAST_SURE:
        outside += 1
    outside = max(outside, 1)
    return ranked[outside - 1], ranked[-outside]
