"""What one lesson costs a daemon, by stage: CPU of ``nbstream serve`` that learns through HTTP, four connections.

A sampler in the daemon notes at each millisecond of CPU where it is (see ``sampled``). A stage is the innermost
function on the stack that belongs to one, so what it calls from a library counts for it, except for HTTP, the
client of Redis and the log, which are stages themselves. The sampler takes some percent of each stage.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.benchmarks.speed import clients
from tests.benchmarks.speed.bench import Bench, Labelled
from tests.benchmarks.speed.daemons import Daemon, daemon, taught, write_config
from tests.benchmarks.speed.listeners import run_load
from tests.benchmarks.speed.plan import CONNECTIONS, CPU_MICROSECONDS

_SAMPLED = Path(__file__).with_name("sampled.py")
_MILLION = 1e6

DAEMON, REDIS = "daemon", "its Redis"
_LOOP, _REST = "event loop", "what runs no Python, and noting the samples"


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage: parts of the paths of its modules, and which of their functions belong to it where not all do."""

    name: str
    paths: tuple[str, ...]
    functions: frozenset[str] = frozenset()

    def has(self, path: str, function: str) -> bool:
        """Return whether a function belongs to the stage."""
        return any(part in path for part in self.paths) and (not self.functions or function in self.functions)


STAGES = (
    Stage("log", ("/logging/", "nbstream/logs.py")),
    Stage("HTTP", ("/aiohttp/", "nbstream/listeners/", "nbstream/server/", "nbstream/daemon/http.py")),
    Stage("client of Redis", ("/redis/", "/hiredis/", "nbstream/store/connection/", "redis_errors.py")),
    Stage("tokenizing", ("nbstream/mail/", "nbstream/tokens/")),
    Stage("look-up", ("nbstream/bayes/table",), frozenset({"look_up", "look_up_with_totals"})),
    Stage("mirror applies the change", ("nbstream/bayes/table",)),
    Stage("look-up", ("nbstream/store/mirror/",), frozenset({"look_up", "sums"})),
    Stage("mirror applies the change", ("nbstream/store/mirror/",)),
    Stage("scores before and after", ("nbstream/bayes/", "filter/scorer.py", "nbstream/policy/")),
    Stage("counts after the lesson", ("filter/message_counts.py",)),
    Stage("packing of the ledger entry", ("model/ledger.py",)),
    Stage("packing of the history", ("model/history.py",)),
    Stage("packing of the change", ("model/scripts.py",)),
    Stage("remembered message", ("nbstream/store/recent/",)),
    Stage("automatic learning", ("autolearn", "filter/kept_mail.py", "filter/suspects.py")),
    Stage("metrics", ("/prometheus_client/", "metrics.py")),
    Stage("plan", ("nbstream/filter/",)),
    Stage("commit", ("nbstream/store/model/",)),
)
"""The first one that has a function is its stage."""


def run(bench: Bench) -> None:
    """Learn other messages in each turn, and record the stages, the most expensive one first."""
    size = bench.scale.learned
    turns = [bench.unseen[first : first + size] for first in range(0, len(bench.unseen), size)]
    samples = bench.new_folder("lesson") / "samples.json"
    costs: defaultdict[str, list[float]] = defaultdict(list)
    command = (sys.executable, "-P", str(_SAMPLED), str(samples), "nbstream.cli")
    with daemon(write_config(taught(bench)), command) as ours:
        for number, messages in enumerate(turns[: 1 + bench.scale.rounds]):
            seconds = _turn(ours, messages, samples)
            for case in seconds if number else ():  # the first is to warm up
                costs[case].append(seconds[case] * _MILLION / len(messages))
    for case in sorted(costs, key=lambda case: -sum(costs[case])):
        bench.record(f"through HTTP: {case}", CPU_MICROSECONDS, *costs[case])


def _turn(ours: Daemon, messages: Sequence[Labelled], samples: Path) -> dict[str, float]:
    """Learn messages; return the seconds of all stages, of the daemon and of its Redis."""

    async def connect() -> clients.Connection:
        return await clients.Http.to(ours.address("http"))

    requests = [clients.Http.request(f"/learn{label}", path.read_bytes()) for label, path in messages]
    _report(ours, samples)  # and begin anew
    server = ours.server
    cpu, redis = server.cpu_seconds, server.redis_cpu_seconds
    run_load(clients.all_of(connect, requests, CONNECTIONS))
    redis = server.redis_cpu_seconds - redis
    cpu = server.cpu_seconds - cpu - redis
    seconds = seconds_by_stage(_report(ours, samples))
    rest = cpu - sum(seconds.values())
    return seconds | {_REST: rest, DAEMON: cpu, REDIS: redis}


def _report(ours: Daemon, samples: Path) -> list[tuple[list[str], float]]:
    """Return what the sampler has noted since the last report."""
    samples.unlink(missing_ok=True)
    os.kill(ours.server.process.pid, signal.SIGUSR2)
    ours.server.wait_for(samples.exists)
    stacks: list[tuple[list[str], float]] = json.loads(samples.read_text())
    return stacks


def seconds_by_stage(stacks: Sequence[tuple[Sequence[str], float]]) -> dict[str, float]:
    """Return the seconds of each stage; each stack has its functions from the inside to the outside."""
    seconds = dict.fromkeys([*(stage.name for stage in STAGES), _LOOP], 0.0)
    for stack, used in stacks:
        functions = (function.rpartition(":")[::2] for function in stack)
        stages = (stage.name for path, name in functions for stage in STAGES if stage.has(path, name))
        seconds[next(stages, _LOOP)] += used
    return seconds
