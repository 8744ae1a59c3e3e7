"""What a start takes, by the size of the model; memory, and what an idle worker uses.

The tokens are made up: 13 bytes, known to one class, every fifth to both. A start is timed from the command until
``/readyz`` says yes, with Redis running already, and with Redis started by it and loading its file first. For a
further worker, one of two is killed; the time is that of the process that takes its place, from its first moment
until it is ready. Memory is what no other process uses (``Private_*`` of ``/proc/PID/smaps_rollup``).
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from redis import Redis

from nbstream.daemon import config
from nbstream.daemon.assembly.parts import open_one_shot_filter
from nbstream.engine.choice import ENVIRONMENT
from tests.benchmarks.speed.bench import Bench
from tests.benchmarks.speed.daemons import COMMAND, write_config
from tests.benchmarks.speed.plan import (
    BYTES,
    CPU_MILLISECONDS,
    CPU_SECONDS,
    HELP,
    IDLE,
    MEGABYTES,
    MILLISECONDS,
    PERCENT,
    SECONDS,
    further_worker,
    started,
    with_its_redis,
    worker,
)
from tests.benchmarks.speed.processes import (
    Served,
    age_seconds,
    children_cpu_seconds,
    cpu_seconds,
    private_bytes,
    served,
)
from tests.benchmarks.speed.redis_use import embedded_redis

_MEGA = 1e6
_AT_ONCE = 5_000
_SETTLE_SECONDS = 3.0
_PYTHON = "engine: python"


def run(bench: Bench) -> None:
    """The command line, an idle worker, then models by their size."""
    _help(bench)
    empty, further_empty = _idle(bench)
    for tokens in bench.scale.vocabularies:
        _start(bench, tokens, empty, further_empty)


def _help(bench: Bench) -> None:
    waits, costs = [], []
    for _ in range(3 * bench.scale.rounds):
        before, began = children_cpu_seconds(), time.perf_counter()
        subprocess.run([*COMMAND, "--help"], cwd=bench.folder, stdout=subprocess.DEVNULL, check=True)
        waits.append(1000 * (time.perf_counter() - began))
        costs.append(1000 * (children_cpu_seconds() - before))
    bench.record(HELP, MILLISECONDS, *waits)
    bench.record(HELP, CPU_MILLISECONDS, *costs)


@contextmanager
def _until_ready(settings: Path, *before: str) -> Iterator[tuple[Served, float]]:
    """A daemon that is ready, and the seconds that it took. ``before`` is what precedes its command."""
    http = config.load_settings(settings).listeners.http
    assert http
    began = time.perf_counter()
    log = settings.with_suffix(".log")
    with served([*before, *COMMAND, "serve", "-c", str(settings)], log, settings.parent) as server:
        server.wait_for(lambda: _is_ready(f"http://{http.listen}/readyz"))
        yield server, time.perf_counter() - began


def _is_ready(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5.0) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _idle(bench: Bench) -> tuple[int, int]:
    """Returns the private bytes of a worker with an empty model, and of one beside another one."""
    state = bench.new_folder("idle") / "state"
    settings = write_config(state)
    with _until_ready(settings) as (server, seconds):
        time.sleep(_SETTLE_SECONDS)
        with Redis(unix_socket_path=str(state / "redis" / "redis.sock")) as client:
            info: Any = client.info("server")
        pids = {IDLE: server.process.pid, f"{IDLE}, its Redis": info["process_id"]}
        before = {name: cpu_seconds(pid) for name, pid in pids.items()}
        idle = 2 * bench.scale.seconds
        time.sleep(idle)
        for name, pid in pids.items():
            bench.record(name, PERCENT, 100 * (cpu_seconds(pid) - before[name]) / idle)
        bench.record(IDLE, MEGABYTES, server.resident_bytes / _MEGA)
        bench.record(started(0), SECONDS, seconds)
        empty = private_bytes(server.process.pid)
    with _further_worker(write_config(state, workers="2")) as (pid, _):
        return empty, private_bytes(pid)


def _start(bench: Bench, tokens: int, empty: int, further_empty: int) -> None:
    state = bench.new_folder("start") / "state"
    settings = write_config(state)
    with embedded_redis(state) as client:
        asyncio.run(_sign(settings))
        before: Any = client.info("memory")
        counts = _fill(client, tokens)
        after: Any = client.info("memory")
        with _until_ready(settings) as (server, seconds):
            bench.record(started(tokens), SECONDS, seconds)
            bench.record(started(tokens), CPU_SECONDS, cpu_seconds(server.process.pid))
            _memory(bench, worker(tokens), server.process.pid, tokens, empty)
        python = f"{{}}, {_PYTHON}"
        with _until_ready(settings, "env", f"{ENVIRONMENT}=python") as (server, seconds):
            bench.record(python.format(started(tokens)), SECONDS, seconds)
            _memory(bench, python.format(worker(tokens)), server.process.pid, tokens, empty)
        with _further_worker(write_config(state, workers="2")) as (pid, seconds):
            bench.record(further_worker(tokens), SECONDS, seconds)
            bench.record(further_worker(tokens), CPU_SECONDS, cpu_seconds(pid))
            _memory(bench, further_worker(tokens), pid, tokens, further_empty)
        settings = write_config(state)
        used = after["used_memory"] - before["used_memory"]
        bench.record(f"Redis of {counts:,} counts", BYTES, used / tokens)
    with _until_ready(settings) as (_, seconds):
        bench.record(with_its_redis(tokens), SECONDS, seconds)


def _memory(bench: Bench, case: str, pid: int, tokens: int, empty: int) -> None:
    size = private_bytes(pid)
    bench.record(case, MEGABYTES, size / _MEGA)
    bench.record(case, BYTES, (size - empty) / tokens)


@contextmanager
def _further_worker(settings: Path) -> Iterator[tuple[int, float]]:
    """The process id of a worker that began beside one that had the counts, and the seconds until it was ready."""
    with _until_ready(settings) as (server, _):
        server.wait_for(lambda: len(_ready_workers(server)) == 2)
        os.kill(_ready_workers(server)[0], signal.SIGKILL)
        server.wait_for(lambda: len(_ready_workers(server)) == 3)
        pid = _ready_workers(server)[-1]
        yield pid, age_seconds(pid)


def _ready_workers(server: Served) -> list[int]:
    """The process ids in the log of a daemon of workers that have become ready, one after the other."""
    lines = server.log.read_text().splitlines()
    return [json.loads(line)["pid"] for line in lines if '"worker ready"' in line and line.endswith("}")]


async def _sign(settings: Path) -> None:
    """Have the model begun by this program."""
    async with open_one_shot_filter(config.load_settings(settings), sign=True):
        pass


def _fill(client: Redis, tokens: int) -> int:
    """Put the counts and the totals; returns how many counts that makes over all classes."""
    sums, counts = [0, 0], 0
    for column, label in enumerate(("ham", "spam")):
        for start in range(0, tokens, _AT_ONCE):
            numbers = [n for n in range(start, min(tokens, start + _AT_ONCE)) if n % 5 == 4 or n % 2 == column]
            fields: dict[Any, Any] = {f"body:{n * 2654435761 % 2**32:08x}": 1000 + n % 90_000 for n in numbers}
            client.hset(f"nbstream:{{default}}:counts:{label}", mapping=fields)
            sums[column] += sum(fields.values())
            counts += len(fields)
    totals: dict[Any, Any] = {"tokens:ham": sums[0], "tokens:spam": sums[1], "vocabulary": tokens}
    totals |= {"messages:ham": tokens // 100, "messages:spam": tokens // 100}
    client.hset("nbstream:{default}:totals", mapping=totals)
    return counts
