"""How fast it learns: from an mbox by ``nbstream learn``, and through HTTP; and what it costs Redis.

The messages are those after the taught ones, each learned once; bogofilter learns the same in turns. The Redis is
the embedded one, which syncs each change to disk. Reads are how often Redis had something to read of its clients:
of a message, its round trips, and those of the daemon's mirror where one runs.
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvloop
from redis import Redis

from nbstream import config
from nbstream.assembly.store import make_mirror, make_model, open_redis
from nbstream.engine.choice import choose_engine
from nbstream.store.embedded.server import EmbeddedRedis
from tests.benchmarks.speed import clients
from tests.benchmarks.speed.bench import Bench
from tests.benchmarks.speed.bogofilter import Bogofilter
from tests.benchmarks.speed.daemons import COMMAND, daemon, taught, write_config
from tests.benchmarks.speed.figures import percentile
from tests.benchmarks.speed.plan import (
    BOGOFILTER_LESSONS,
    BULK,
    CONNECTIONS,
    CPU_MILLISECONDS,
    HTTP_LESSONS,
    MILLISECONDS,
    PERCENTILES,
    RATE,
    READS,
)
from tests.benchmarks.speed.processes import CannotMeasure, children_cpu_seconds, cpu_seconds

_FROM = b"From bench@example.org Fri Nov  6 10:00:00 2026\n"
_SECONDS = 100.0


def run(bench: Bench) -> None:
    """Measure in bulk, then through HTTP, then how far a mirror is behind."""
    _in_bulk(bench)
    _through_http(bench)
    uvloop.run(_behind(bench, taught(bench)))


@contextmanager
def redis_of(state: Path) -> Iterator[Redis]:
    """Run the embedded server of a state folder; yields a client of it."""
    embedded = EmbeddedRedis(state)
    address = asyncio.run(embedded.join())
    asyncio.run(embedded.ensure_running())
    try:
        with Redis(unix_socket_path=address) as client:
            yield client
    finally:
        asyncio.run(embedded.release())


def mboxes(bench: Bench) -> dict[str, tuple[Path, int]]:
    """Return for each label the mbox of its messages, and their number."""
    boxes, folder = {}, bench.new_folder("mbox")
    for label in ("spam", "ham"):
        raws = [path.read_bytes() for message_label, path in bench.learned if message_label == label]
        file = folder / f"{label}.mbox"
        file.write_bytes(b"".join(_FROM + raw.replace(b"\nFrom ", b"\n>From ") + b"\n\n" for raw in raws))
        boxes[label] = file, len(raws)
    return boxes


def _in_bulk(bench: Bench) -> None:
    boxes = mboxes(bench)
    count = sum(number for _, number in boxes.values())
    rates, own, costs, reads, theirs = [], [], [], [], []
    for _ in range(bench.scale.rounds):
        with bench.skipping(BOGOFILTER_LESSONS):
            theirs.append(count / _bogofilter_seconds(bench))
        state = taught(bench)
        settings = write_config(state)
        with redis_of(state) as client:
            before, used, began = _used(client), children_cpu_seconds(), time.perf_counter()
            for label, (file, _) in boxes.items():
                _learn(settings, label, file)
            rates.append(count / (time.perf_counter() - began))
            after = _used(client)
            own.append(1000 * (children_cpu_seconds() - used) / count)
            costs.append(1000 * (after["cpu"] - before["cpu"]) / count)
            reads.append((after["reads"] - before["reads"]) / count)
    bench.record(BULK, RATE, *rates)
    if theirs:
        bench.record(BULK, RATE, *theirs, who=BOGOFILTER_LESSONS)
    bench.record(BULK, CPU_MILLISECONDS, *own)
    bench.record(f"{BULK}, Redis", CPU_MILLISECONDS, *costs)
    bench.record(BULK, READS, *reads)


def _bogofilter_seconds(bench: Bench) -> float:
    """Return how long bogofilter takes to learn the messages: one process for each class."""
    folder = bench.new_folder("bogofilter") / "words"
    Bogofilter(bench.shared / "bogofilter", bench.taught)  # makes it where it is missing
    shutil.copytree(bench.shared / "bogofilter", folder)
    began = time.perf_counter()
    Bogofilter(folder, ()).learn(bench.learned)
    return time.perf_counter() - began


def _learn(settings: Path, label: str, file: Path) -> None:
    words = [*COMMAND, "learn", "-c", str(settings), label, str(file)]
    done = subprocess.run(
        words, cwd=settings.parent, capture_output=True, text=True, timeout=_SECONDS, check=False
    )
    if done.returncode:
        raise CannotMeasure(f"nbstream learn: {done.stdout} {done.stderr}")


def _used(client: Redis) -> dict[str, float]:
    """Return the CPU seconds of the server until now, and how often it read something from a client."""
    info: Any = client.info("everything")
    return {"cpu": cpu_seconds(info["process_id"]), "reads": info["total_reads_processed"]}


def _through_http(bench: Bench) -> None:
    requests = [clients.Http.request(f"/learn{label}", path.read_bytes()) for label, path in bench.learned]
    rates, costs, reads = [], [], []
    for _ in range(bench.scale.rounds):
        state = taught(bench)
        with (
            daemon(write_config(state)) as ours,
            Redis(unix_socket_path=str(state / "redis" / "redis.sock")) as client,
        ):

            async def connect() -> clients.Connection:
                return await clients.Http.to(ours.address("http"))

            before, cpu = _used(client), ours.server.cpu_seconds
            load = uvloop.run(clients.all_of(connect, requests, CONNECTIONS))
            rates.append(load.rate)
            costs.append(1000 * (ours.server.cpu_seconds - cpu) / len(requests))
            reads.append((_used(client)["reads"] - before["reads"]) / len(requests))
    bench.record(HTTP_LESSONS, RATE, *rates)
    bench.record(f"{HTTP_LESSONS}, with its Redis", CPU_MILLISECONDS, *costs)
    bench.record(HTTP_LESSONS, READS, *reads)


async def _behind(bench: Bench, state: Path) -> None:
    """Measure the time from a change in Redis until a mirror in this process has applied it."""
    file, _ = mboxes(bench)["ham"]
    file_of_settings = write_config(state)
    settings = config.load_settings(file_of_settings)
    lags: list[float] = []
    async with open_redis(settings) as store:
        assert store.embedded
        await store.embedded.ensure_running()
        model = make_model(settings, store.blocking_client)
        await model.open()
        mirror = make_mirror(settings, store, model, choose_engine(settings.engine))
        following = asyncio.create_task(mirror.run())
        await mirror.loaded.wait()
        learning = asyncio.create_task(asyncio.to_thread(_learn, file_of_settings, "ham", file))
        newest: Any = await store.client.xrevrange(model.keys.changes, count=1)
        last = newest[0][0]
        while not learning.done():
            streams: Any = await store.client.xread({model.keys.changes: last}, block=200)
            for _, entries in streams:
                last = entries[-1][0]
                await mirror.wait_until_applied(last)
                lags.append(1000 * time.time() - int(last.partition(b"-")[0]))
        following.cancel()
        await asyncio.wait([following])
    await learning
    for name, share in PERCENTILES.items():
        bench.record(f"mirror behind {BULK}, {name}", MILLISECONDS, percentile(lags, share))
