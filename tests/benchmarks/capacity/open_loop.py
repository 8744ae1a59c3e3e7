"""A real daemon under messages that come whether the last ones are answered or not, beside the simulated queue."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from nbstream.assembly.filter import make_filter
from nbstream.assembly.policy import make_message_reader
from nbstream.assembly.store import make_mirror, make_model, open_running_redis
from nbstream.cli.generated_mail import GeneratedMail
from nbstream.config import Settings
from nbstream.store.model.model import temporary_model
from tests.benchmarks.capacity import measuring
from tests.benchmarks.capacity.machine import private_settings, with_model_name
from tests.benchmarks.capacity.measured_daemon import MeasuredDaemon, measured_daemon
from tests.benchmarks.capacity.queueing import simulate_load
from tests.benchmarks.speed import clients
from tests.benchmarks.speed.figures import percentile

_CONNECTIONS = 4
_ATTEMPTS = 2
_MOST_LOAD = 0.99  # beyond it nothing is at rest
_LEDGER_SECONDS = 86_400


@dataclass(frozen=True, slots=True)
class ComparedLoad:
    """Milliseconds that messages took at a rate: in the simulation, and in the real run.

    ``load`` was wanted, of the capacity before the run. The simulation has the mean of the capacities before and
    after it: where these differ much, the machine had other work, and the row says nothing about the simulation.
    """

    load: float
    rate: float
    capacity_before: float
    capacity_after: float
    simulated_p50: float
    simulated_p99: float
    measured_p50: float
    measured_p99: float

    @property
    def drift(self) -> float:
        """By which share the capacity changed meanwhile."""
        return abs(self.capacity_after - self.capacity_before) / self.capacity_before


@asynccontextmanager
async def taught_daemon(mail: Sequence[GeneratedMail]) -> AsyncIterator[MeasuredDaemon]:
    """Run a daemon that was taught the first half of the mail."""
    with tempfile.TemporaryDirectory(prefix="nb") as folder:
        private = private_settings(Settings(), Path(folder))
        async with (
            open_running_redis(private) as clients_of_redis,
            temporary_model(clients_of_redis.client, "capacity", _LEDGER_SECONDS) as model,
        ):
            settings, reader = with_model_name(private, model.keys.model), make_message_reader(private)
            mirror = make_mirror(
                settings, clients_of_redis, make_model(settings, clients_of_redis.blocking_client)
            )
            async with measuring.following(mirror):
                spam_filter = make_filter(settings, model, mirror)
                await measuring.teach_mail(spam_filter, model, mail[: len(mail) // 2], reader)
            async with measured_daemon(settings) as daemon:
                yield daemon


async def compare(mail: Sequence[GeneratedMail], loads: Sequence[float], seconds: float) -> Sequence[ComparedLoad]:
    """Measure the latency at each load for that many seconds, beside the simulation.

    Each load is measured twice, and the run with the steadier capacity is returned: where it changes meanwhile,
    the machine has other work.
    """
    requests = [clients.Http.request("/checkv2", message.raw) for message in mail[len(mail) // 2 :]]
    async with taught_daemon(mail) as daemon:

        async def connect() -> clients.Connection:
            return await clients.Http.to(f"{daemon.host}:{daemon.port}")

        await clients.for_seconds(connect, requests, _CONNECTIONS, seconds / 3)  # warms it up
        compared = []
        for load in loads:
            runs = [await _compare_load(connect, requests, load, seconds) for _ in range(_ATTEMPTS)]
            compared.append(min(runs, key=lambda run: run.drift))
    return compared


async def _compare_load(
    connect: clients.Connect, requests: Sequence[bytes], load: float, seconds: float
) -> ComparedLoad:
    """Measure and simulate one load.

    First the messages go through one connection, each when the last is answered: these round trips are what a
    message takes alone. What they take longer in the mean than 1/capacity is the client's part, which holds no
    worker: the rest is the simulated service time, and the client's part is added to the simulated latency.
    """

    async def capacity() -> float:
        """Return the messages a second of several connections, each as fast as it is answered."""
        return (await clients.for_seconds(connect, requests, _CONNECTIONS, seconds / 3)).rate

    alone = (await clients.for_seconds(connect, requests, 1, seconds / 3)).waits
    before = await capacity()
    run = await clients.at_rate(connect, requests, load * before, seconds)
    after = await capacity()
    mean_capacity = (before + after) / 2
    beside = min(max(0.0, fmean(alone) - 1 / mean_capacity), *alone)
    point = simulate_load([trip - beside for trip in alone], min(_MOST_LOAD, load * before / mean_capacity))
    return ComparedLoad(
        load,
        load * before,
        before,
        after,
        1000 * (point.p50 + beside),
        1000 * (point.p99 + beside),
        1000 * percentile(run.waits, 0.5),
        1000 * percentile(run.waits, 0.99),
    )
