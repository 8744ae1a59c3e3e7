"""Waits for answers to HTTP checks that come at random moments: alone, beside lessons, beside large messages.

The cases are measured in turns, with the same daemon and the same client, which shares the machine. The CPU time
of a check beside lessons is what is left of the whole after that of lessons, which are also measured alone.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import uvloop

from tests.benchmarks.speed import clients
from tests.benchmarks.speed.bench import Bench
from tests.benchmarks.speed.daemons import Daemon, daemon, taught, write_config
from tests.benchmarks.speed.figures import percentile
from tests.benchmarks.speed.plan import (
    BESIDE_LARGE,
    BESIDE_LESSONS,
    CHECKS_ALONE,
    CPU_MILLISECONDS,
    LESSONS_ALONE,
    MILLISECONDS,
    PERCENTILES,
    RATE_OF_CHECKS,
    RATE_OF_LESSONS,
    TIMES,
    ratio,
)

_PARTS_OF_LARGE = 2_700
"""Messages of 7.3 kB on average, which together are about 20 MB."""


def run(bench: Bench) -> None:
    """Measure all cases in each round."""
    checks = [path.read_bytes() for _, path in bench.checked]
    labelled = [(label, path.read_bytes()) for label, path in bench.unseen[len(checks) :]]
    lessons = itertools.cycle([clients.Http.request(f"/learn{label}", raw) for label, raw in labelled])
    large = b"Subject: large\r\n\r\n" + b"".join(itertools.islice(itertools.cycle(checks), _PARTS_OF_LARGE))
    requests = [clients.Http.request("/checkv2", raw) for raw in checks]
    cases = (CHECKS_ALONE, LESSONS_ALONE, BESIDE_LESSONS, BESIDE_LARGE)
    cpu: dict[str, list[float]] = {case: [] for case in cases}
    waits: dict[str, list[list[float]]] = {case: [] for case in cases}
    with daemon(write_config(taught(bench))) as ours:
        load = _Load(ours, requests, lessons, large, 2 * bench.scale.seconds)
        for _, case in itertools.product(range(bench.scale.rounds), cases):
            before, done = ours.server.cpu_seconds, uvloop.run(load.send(case))
            cpu[case].append(1000 * (ours.server.cpu_seconds - before) / len(done.waits))
            waits[case].append([1000 * wait for wait in done.waits])
    _record_waits(bench, waits)
    _record_cpu(bench, cpu)


@dataclass(frozen=True, slots=True)
class _Load:
    """What the daemon gets in each case."""

    ours: Daemon
    checks: Sequence[bytes]
    lessons: Iterator[bytes]
    large: bytes
    seconds: float

    async def send(self, case: str) -> clients.Load:
        """Send what the case says for some seconds; return the waits of the checks, or of the lessons alone."""
        loads = []
        if case != LESSONS_ALONE:
            loads.append(clients.at_rate(self._connect, self.checks, RATE_OF_CHECKS, self.seconds))
        if case in {LESSONS_ALONE, BESIDE_LESSONS}:
            lessons = list(itertools.islice(self.lessons, round(1.1 * RATE_OF_LESSONS * self.seconds) + 10))
            loads.append(clients.at_rate(self._connect, lessons, RATE_OF_LESSONS, self.seconds))
        if case == BESIDE_LARGE:
            large = [clients.Http.request("/checkv2", self.large)]
            loads.append(clients.for_seconds(self._connect, large, 1, self.seconds))
        return (await asyncio.gather(*loads))[0]

    async def _connect(self) -> clients.Connection:
        return await clients.Http.to(self.ours.address("http"))


def _record_waits(bench: Bench, waits: Mapping[str, Sequence[Sequence[float]]]) -> None:
    for case in (CHECKS_ALONE, BESIDE_LESSONS, BESIDE_LARGE):
        for name, share in PERCENTILES.items():
            bench.record(f"{case}, {name}", MILLISECONDS, *(percentile(one, share) for one in waits[case]))
        if case != CHECKS_ALONE:
            pairs = zip(waits[case], waits[CHECKS_ALONE], strict=True)
            slower = (percentile(beside, 0.99) / percentile(alone, 0.99) for beside, alone in pairs)
            bench.record(ratio(case, "p99"), TIMES, *slower)


def _record_cpu(bench: Bench, cpu: Mapping[str, Sequence[float]]) -> None:
    # As many lessons come as checks.
    checks = [both - lessons for both, lessons in zip(cpu[BESIDE_LESSONS], cpu[LESSONS_ALONE], strict=True)]
    for case in (CHECKS_ALONE, LESSONS_ALONE):
        bench.record(case, CPU_MILLISECONDS, *cpu[case])
    bench.record(BESIDE_LESSONS, CPU_MILLISECONDS, *checks)
    pairs = zip(checks, cpu[CHECKS_ALONE], strict=True)
    bench.record(ratio(BESIDE_LESSONS, "CPU"), TIMES, *(beside / alone for beside, alone in pairs))
