"""Each listener under a real load client: one worker, four connections, beside a peer of the same protocol.

The daemon runs as users run it: default configuration, metrics on, its log in a file, its own Redis. CPU is that
of all processes of a side, its Redis included; the client's is not counted, but shares the machine. Both sides
run, and are loaded in turns.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import uvloop
from redis import Redis

from tests.benchmarks.speed import clients, rspamd, spamassassin
from tests.benchmarks.speed.bench import Bench
from tests.benchmarks.speed.daemons import Daemon, daemon, taught, write_config
from tests.benchmarks.speed.figures import OURS
from tests.benchmarks.speed.plan import (
    CONNECTIONS,
    CPU_MILLISECONDS,
    HTTP,
    PASS_THROUGH,
    PERCENT,
    RATE,
    RSPAMD,
    SHARE,
    SMTP,
    SPAMD,
    STREAM,
)
from tests.benchmarks.speed.processes import (
    ROOT,
    CannotMeasure,
    Measured,
    Served,
    client_cpu_seconds,
    free_port,
    listens,
    served,
)
from tests.benchmarks.speed.wrk import Wrk

_LONG_LINE = re.compile(rb"[^\r\n]{990}")
_ANSWER_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a comparison: what is measured, and a function that loads it for some seconds."""

    servers: tuple[Measured, ...]
    """All that serve, its Redis included where that is no process of the server."""
    load: Callable[[float], tuple[int, float]]
    """Returns the number of answers and the seconds."""


@dataclass(frozen=True, slots=True)
class Cost:
    """The CPU seconds until now of a server with its Redis, of its Redis alone, and of the client."""

    server: float
    redis: float
    client: float

    @classmethod
    def until_now(cls, side: Side) -> Cost:
        """Return the cost of one side."""
        of_servers = sum(server.cpu_seconds for server in side.servers)
        of_redis = sum(server.redis_cpu_seconds for server in side.servers)
        return cls(of_servers, of_redis, client_cpu_seconds())

    def since(self, before: Cost) -> Cost:
        """Return the cost since ``before``."""
        return Cost(self.server - before.server, self.redis - before.redis, self.client - before.client)


@dataclass(frozen=True, slots=True)
class Round:
    """One round of load."""

    answers: int
    seconds: float
    cost: Cost

    def milliseconds(self, seconds: float) -> float:
        """Return what so many seconds are for each answer."""
        return 1000 * seconds / self.answers


_COSTS: dict[str, Callable[[Cost], float]] = {
    "": lambda cost: cost.server,
    ", of this its Redis": lambda cost: cost.redis,
}
"""What is recorded of the CPU of a round, by what follows the name of the case."""
_COSTS_WITH_CLIENT = _COSTS | {", and the client": lambda cost: cost.client}


def run(bench: Bench) -> None:
    """Measure all listeners, one after the other."""
    for listener, measure in {HTTP: _http, SPAMD: _spamd, SMTP: smtp, STREAM: _stream}.items():
        with bench.skipping(listener):
            measure(bench)


def in_turns(bench: Bench, listener: str, sides: dict[str, Side], *, has_client: bool = True) -> None:
    """Load each side in turns, and record rates and CPU, and how much of all cores was in use.

    Without a client neither its CPU nor the use of the cores is recorded. A side that fails is skipped.
    """
    rounds: dict[str, list[Round]] = {who: [] for who in sides}
    for number in range(1 + bench.scale.rounds):
        for who in list(rounds):
            before, lasting = Cost.until_now(sides[who]), bench.scale.seconds
            try:
                answers, seconds = sides[who].load(lasting if number else min(1.0, lasting))
            except CannotMeasure as error:
                bench.skip(f"{listener}, {who}", str(error))
                del rounds[who]
                continue
            if number:  # the first is to warm up
                rounds[who].append(Round(answers, seconds, Cost.until_now(sides[who]).since(before)))
    for who, made in rounds.items():
        bench.record(listener, RATE, *(one.answers / one.seconds for one in made), who=who)
        for part, parts_cost in (_COSTS_WITH_CLIENT if has_client else _COSTS).items():
            values = [one.milliseconds(parts_cost(one.cost)) for one in made]
            if any(values):  # not every side has a Redis
                bench.record(f"{listener}{part}", CPU_MILLISECONDS, *values, who=who)
        if not has_client:
            continue
        cores = os.cpu_count() or 1
        in_use = [100 * (one.cost.server + one.cost.client) / one.seconds / cores for one in made]
        bench.record(f"{listener}, both sides, of all cores", PERCENT, *in_use, who=who)


def _http(bench: Bench) -> None:
    wrk = Wrk(bench.checked, bench.new_folder("wrk"), CONNECTIONS)
    bench.report.machine["wrk"] = wrk.version

    def load(address: str) -> Callable[[float], tuple[int, float]]:
        return lambda seconds: wrk.post(address, "/checkv2", seconds)

    with ExitStack() as stack:
        ours = stack.enter_context(daemon(write_config(taught(bench))))
        sides = {OURS: Side((ours.server,), load(ours.address("http")))}
        with bench.skipping(RSPAMD):
            theirs = stack.enter_context(
                rspamd.rspamd(bench.new_folder("rspamd"), bench.shared / "rspamd.rdb", bench.taught)
            )
            bench.report.machine["rspamd"] = rspamd.version()
            sides[RSPAMD] = Side((theirs.server, theirs.redis), load(f"127.0.0.1:{theirs.port}"))
        in_turns(bench, HTTP, sides)
        # Messages that could not be queued to be remembered cost nothing, so their share is reported as well.
        dropped, checked = map(ours.metric, ("nbstream_memory_dropped_total", "nbstream_score_probability_count"))
        bench.record(f"{HTTP}, not remembered", SHARE, 100 * dropped / checked)


def _spamd(bench: Bench) -> None:
    requests = [clients.Spamd.request(path.read_bytes()) for _, path in bench.checked]

    def load(address: str) -> Callable[[float], tuple[int, float]]:
        async def connect() -> clients.Connection:
            return clients.Spamd(address)

        return lambda seconds: run_load(clients.for_seconds(connect, requests, CONNECTIONS, seconds))

    with ExitStack() as stack:
        ours = stack.enter_context(daemon(write_config(taught(bench), 'spamd: {listen: "127.0.0.1:0"}')))
        sides = {OURS: Side((ours.server,), load(ours.address("spamd")))}
        with bench.skipping("SpamAssassin"):
            first = bench.taught[: bench.scale.taught_to_spamassassin]
            theirs, address = stack.enter_context(
                spamassassin.spamd(bench.new_folder("spamassassin"), bench.shared / "spamassassin", first)
            )
            bench.report.machine["SpamAssassin"] = f"{spamassassin.version()}, taught {len(first):,}"
            sides["SpamAssassin"] = Side((theirs,), load(address))
        in_turns(bench, SPAMD, sides)


def smtp_requests(bench: Bench) -> list[bytes]:
    """The messages without those that have longer lines than SMTP allows, which aiosmtpd refuses."""
    raws = (path.read_bytes() for _, path in bench.checked)
    return [clients.Smtp.request(raw) for raw in raws if not _LONG_LINE.search(raw)]


@contextmanager
def module(name: str, *arguments: str, port: int, folder: Path) -> Iterator[Served]:
    """Run a server of this package beside the daemon until the end of the block; yields it when it listens."""
    words = [sys.executable, "-m", f"tests.benchmarks.speed.{name}", str(port), *arguments]
    with served(words, folder / f"{name}.log", ROOT) as server:
        server.wait_for(lambda: listens(port))
        yield server


@contextmanager
def relaying(bench: Bench, listeners: str = "", workers: int = 1) -> Iterator[tuple[Daemon, int]]:
    """The daemon with a sink as its next hop, and the sink's port."""
    port, folder = free_port(), bench.new_folder("sink")
    relay = f'{{next_hop: "smtp://127.0.0.1:{port}"}}'
    config = write_config(taught(bench), listeners, relay=relay, workers=str(workers))
    with module("sink", port=port, folder=folder), daemon(config) as ours:
        yield ours, port


def smtp(bench: Bench) -> None:
    """Mail in and out, beside the pass-through to the same sink."""
    requests = smtp_requests(bench)

    def load(address: str) -> Callable[[float], tuple[int, float]]:
        async def connect() -> clients.Connection:
            return await clients.Smtp.greeted(address)

        return lambda seconds: run_load(clients.for_seconds(connect, requests, CONNECTIONS, seconds))

    port, folder = free_port(), bench.new_folder("passthrough")
    with (
        relaying(bench) as (ours, next_port),
        module("passthrough", str(next_port), port=port, folder=folder) as bare,
    ):
        sides = {
            OURS: Side((ours.server,), load(ours.address("smtp"))),
            PASS_THROUGH: Side((bare,), load(f"127.0.0.1:{port}")),
        }
        in_turns(bench, SMTP, sides)


def run_load(load: Any) -> tuple[int, float]:
    """Run a load; return the number of answers and the seconds."""
    result = uvloop.run(load)
    return len(result.waits), result.seconds


def _stream(bench: Bench) -> None:
    raws = [path.read_bytes() for _, path in bench.checked]
    state = taught(bench)
    with (
        daemon(write_config(state, "stream: {}")) as ours,
        Redis(unix_socket_path=str(state / "redis" / "redis.sock")) as client,
    ):
        load = partial(_through_the_stream, client, raws)
        in_turns(bench, STREAM, {OURS: Side((ours.server,), load)})


def _through_the_stream(client: Redis, raws: list[bytes], _: float) -> tuple[int, float]:
    """Add all messages to the stream, and wait for the last answer."""
    newest: Any = client.xrevrange("nbstream:{default}:out", count=1)
    last, answers = newest[0][0] if newest else b"0-0", 0
    started = time.perf_counter()
    with client.pipeline(transaction=False) as pipe:
        for raw in raws:
            pipe.xadd("nbstream:{default}:in", {"raw": raw})
        pipe.execute()
    while answers < len(raws):
        if time.perf_counter() - started > _ANSWER_SECONDS:
            raise CannotMeasure(f"{answers} of {len(raws)} entries were answered")
        read: Any = client.xread({"nbstream:{default}:out": last}, block=1000)
        for _, entries in read:
            answers, last = answers + len(entries), entries[-1][0]
            if wrong := [fields for _, fields in entries if b"error" in fields]:
                raise CannotMeasure(f"stream: {wrong[0]}")
    return answers, time.perf_counter() - started
