"""The house that is measured: configuration, a model taught once for all parts, the daemon, or its parts here."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
import urllib.request
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import uvloop

from nbstream import config
from nbstream.assembly.filter import make_filter, message_limits, open_one_shot_filter
from nbstream.assembly.policy import make_filter_policy
from nbstream.assembly.store import make_model, make_recent_messages, open_redis
from nbstream.filter import CompositeObserver, Filter, RememberingObserver
from nbstream.mail.message import Message
from nbstream.metrics.daemon import DaemonMetrics
from nbstream.policy.incoming_message import incoming_message
from nbstream.store.replica.mirror import Mirror
from tests.benchmarks.speed.processes import Served, free_port, served

if TYPE_CHECKING:
    from nbstream.config import Settings
    from nbstream.store.recent.checked_messages import RecentMessages
    from tests.benchmarks.speed.bench import Bench, Labelled

# -P: the folder that a process is started in does not decide which nbstream it runs.
COMMAND = (sys.executable, "-P", "-m", "nbstream.cli")


def write_config(state: Path, listeners: str = "", **sections: str) -> Path:
    """A configuration beside a state folder: the defaults but for ports, and for what is given."""
    chosen = {
        "state_dir": str(state),
        "listeners": f"{{smtp: {{listen: 127.0.0.1:{free_port()}}}, http: {{listen: 127.0.0.1:{free_port()}}}"
        + (f", {listeners}}}" if listeners else "}"),
        **sections,
    }
    path = state.with_suffix(".yaml")
    path.write_text("".join(f"{key}: {value}\n" for key, value in chosen.items()))
    return path


def taught(bench: Bench) -> Path:
    """A state folder of its own with the model of the first messages, taught in stream order; made once a run."""
    kept = bench.kept / "taught"
    if not kept.exists():
        making = bench.new_folder("teaching") / "state"
        uvloop.run(_teach(config.load_settings(write_config(making)), bench.taught))
        shutil.move(making, kept)
    state = bench.new_folder("state") / "state"
    shutil.copytree(kept, state, ignore=shutil.ignore_patterns("*.sock"))
    return state


async def _teach(settings: Settings, messages: Iterable[Labelled]) -> None:
    async with open_one_shot_filter(settings, sign=True) as (spam_filter, _):
        for label, path in messages:
            await spam_filter.learn(arrived(path.read_bytes(), settings), label, "bench")


def arrived(raw: bytes, settings: Settings) -> Message:
    """The message as a door hands it to the filter."""
    return incoming_message(raw, message_limits(settings))


@dataclass(frozen=True, slots=True)
class House:
    """The parts of a daemon in this process: with all that watches a check, and bare."""

    settings: Settings
    mirror: Mirror
    memory: RecentMessages
    watched: Filter
    bare: Filter
    dropped: list[int]


@asynccontextmanager
async def house(state: Path) -> AsyncIterator[House]:
    """As ``daemon.server`` puts it together, with metrics and memory, and without doors."""
    settings = config.load_settings(write_config(state))
    async with open_redis(settings) as store:
        assert store.embedded
        await store.embedded.ensure_running()
        model = make_model(settings, store.client)
        await model.open()
        mirror = Mirror(make_model(settings, store.blocking_client), settings.redis.timeout_seconds)
        metrics, dropped = DaemonMetrics.create(), list[int]()
        metrics.watch_model(mirror, lambda: make_filter_policy(settings))
        memory = make_recent_messages(settings, model, dropped.append)
        observer = CompositeObserver(metrics.filter, RememberingObserver(memory.remember))
        tasks = [asyncio.create_task(mirror.run()), asyncio.create_task(memory.run())]
        try:
            await mirror.loaded.wait()
            watched = make_filter(settings, model, mirror, observer, checked_messages=memory)
            bare = make_filter(settings, model, mirror)
            yield House(settings, mirror, memory, watched, bare, dropped)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)


class Daemon:
    """A running ``nbstream serve``."""

    def __init__(self, server: Served) -> None:
        self.server = server
        self._addresses: dict[str, str] = {}

    def address(self, door: str) -> str:
        """Where a door listens, ``HOST:PORT``, once the daemon is ready."""
        return self._addresses[door]

    def metric(self, series: str) -> float:
        """The value of a series without labels."""
        with urllib.request.urlopen(f"http://{self.address('http')}/metrics", timeout=10.0) as answer:
            lines = answer.read().decode().splitlines()
        return next(float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"{series} "))

    def ready(self) -> bool:
        """Whether it has said that it is."""
        for line in self.server.log.read_text().splitlines():
            if '"ready"' in line:
                self._addresses = {key: str(value) for key, value in json.loads(line).items()}
        return bool(self._addresses)


@contextmanager
def daemon(config_file: Path) -> Iterator[Daemon]:
    """``nbstream serve`` on a configuration, ready, its log in a file."""
    log = config_file.with_suffix(".log")
    with served([*COMMAND, "serve", "-c", config_file], log, config_file.parent) as server:
        running = Daemon(server)
        server.wait_for(running.ready)
        yield running
