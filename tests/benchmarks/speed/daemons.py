"""The daemon that is measured: its configuration, its taught model, the process, or its parts in this process."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
import urllib.request
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import uvloop

from nbstream.daemon import config
from nbstream.daemon.assembly.filter import make_filter
from nbstream.daemon.assembly.parts import open_one_shot_filter
from nbstream.daemon.assembly.policy import make_message_reader
from nbstream.daemon.assembly.store import open_redis
from nbstream.daemon.metrics import DaemonMetrics
from nbstream.daemon.server_parts import ServerParts
from nbstream.filter import CompositeObserver, Filter, RememberingObserver
from nbstream.store.follower.counts import FollowedCounts
from tests.benchmarks.speed.processes import Served, free_port, served

if TYPE_CHECKING:
    from nbstream.daemon.config import Settings
    from nbstream.engine.choice import Engine
    from nbstream.policy.header import MessageReader
    from nbstream.store.recent.checked_messages import RecentMessages
    from tests.benchmarks.speed.bench import Bench, Labelled

# -P: the folder that a process is started in does not decide which nbstream it runs.
COMMAND = (sys.executable, "-P", "-m", "nbstream.cli")


def write_config(state: Path, listeners: str = "", *, http: bool = True, **sections: str) -> Path:
    """Write a configuration beside a state folder: the defaults except for ports and the given sections.

    Without ``http`` that listener is off.
    """
    smtp, web = (f"{{listen: 127.0.0.1:{free_port()}}}" for _ in range(2))
    sections = {
        "state_dir": str(state),
        "listeners": f"{{smtp: {smtp}, http: {web if http else 'null'}{', ' if listeners else ''}{listeners}}}",
        **sections,
    }
    path = state.with_suffix(".yaml")
    path.write_text("".join(f"{key}: {value}\n" for key, value in sections.items()))
    return path


def taught(bench: Bench) -> Path:
    """Return a new state folder with a model of the first messages, which is taught once for all parts."""
    shared = bench.shared / "taught"
    if not shared.exists():
        making = bench.new_folder("teaching") / "state"
        uvloop.run(_teach(config.load_settings(write_config(making)), bench.taught))
        shutil.move(making, shared)
    state = bench.new_folder("state") / "state"
    shutil.copytree(shared, state, ignore=shutil.ignore_patterns("*.sock"))
    return state


async def _teach(settings: Settings, messages: Iterable[Labelled]) -> None:
    reader = make_message_reader(settings)
    async with open_one_shot_filter(settings, sign=True) as (spam_filter, _):
        for label, path in messages:
            await spam_filter.learn(reader.read_incoming(path.read_bytes()), label, "bench")


@dataclass(frozen=True, slots=True)
class InProcessDaemon:
    """The parts of a daemon in this process; ``watched`` is the filter with observers, ``bare`` without.

    The one ``reader`` makes messages as the listeners give them to the filter.
    """

    settings: Settings
    reader: MessageReader
    followed: FollowedCounts
    memory: RecentMessages
    watched: Filter
    bare: Filter
    dropped: list[int]


@asynccontextmanager
async def in_process_daemon(state: Path, engine: Engine) -> AsyncIterator[InProcessDaemon]:
    """Put the parts together as ``daemon.server`` does, with metrics and recent messages, without listeners."""
    settings = config.load_settings(write_config(state))
    async with open_redis(settings) as store:
        assert store.embedded
        await store.embedded.ensure_running()
        parts, dropped = ServerParts(settings, store, DaemonMetrics.create(engine), engine), list[int]()
        parts.report_dropped = dropped.append  # type: ignore[assignment,method-assign]
        model, followed, memory = await parts.model.open(), parts.counts, parts.recent_messages
        parts.export_state(lambda: parts.spam_filter.policy)
        observer = CompositeObserver(parts.metrics.filter, RememberingObserver(memory.remember))
        tasks = [asyncio.create_task(parts.follower.run()), asyncio.create_task(memory.run())]
        try:
            await followed.loaded.wait()
            watched = make_filter(settings, model, followed, observer, checked_messages=memory, engine=engine)
            bare = make_filter(settings, model, followed, engine=engine)
            yield InProcessDaemon(
                settings, make_message_reader(settings), followed, memory, watched, bare, dropped
            )
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)


class Daemon:
    """A running ``nbstream serve``."""

    def __init__(self, server: Served) -> None:
        self.server = server
        self._addresses: dict[str, str] = {}

    def address(self, listener: str) -> str:
        """Return the address of a listener, ``HOST:PORT``, once the daemon is ready."""
        return self._addresses[listener]

    def metric(self, series: str) -> float:
        """Return the value of a series without labels."""
        with urllib.request.urlopen(f"http://{self.address('http')}/metrics", timeout=10.0) as answer:
            lines = answer.read().decode().splitlines()
        return next(float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"{series} "))

    def ready(self) -> bool:
        """Return whether the daemon has logged that it is ready."""
        for line in self.server.log.read_text().splitlines():
            if '"ready"' in line:
                self._addresses = {key: str(value) for key, value in json.loads(line).items()}
        return bool(self._addresses)


@contextmanager
def daemon(config_file: Path, command: Sequence[str] = COMMAND) -> Iterator[Daemon]:
    """Run ``nbstream serve`` with a configuration, its log in a file; yields it when it is ready."""
    log = config_file.with_suffix(".log")
    with served([*command, "serve", "-c", config_file], log, config_file.parent) as server:
        running = Daemon(server)
        server.wait_for(running.ready)
        yield running
