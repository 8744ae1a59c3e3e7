"""How fast mailboxes are learned, by ``nbstream learn`` and by peers; and how far a follower is behind meanwhile.

Each turn has other messages, which no model knows, the same for all; each side goes on with its own model. The
slow peers learn the first messages of each turn only. The Redis of nbstream is the embedded one, which syncs each
change to disk; beside it stands one without its file. The peers sync nothing, neither the word list of bogofilter
nor the Redis of rspamd. CPU is that of what learns, with its Redis; rspamc, which only sends, is not counted.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import uvloop
from redis import Redis

from nbstream.daemon import config
from nbstream.daemon.assembly.store import open_redis
from nbstream.daemon.metrics import DaemonMetrics
from nbstream.daemon.server_parts import ServerParts
from nbstream.engine.choice import choose_engine
from tests.benchmarks.speed.bench import Bench, Labelled
from tests.benchmarks.speed.bogofilter import Bogofilter
from tests.benchmarks.speed.daemons import COMMAND, taught, write_config
from tests.benchmarks.speed.figures import OURS, percentile
from tests.benchmarks.speed.listeners import Side, in_turns
from tests.benchmarks.speed.plan import (
    BOGOFILTER_ALONE,
    BOGOFILTER_LESSONS,
    BULK,
    CRM114,
    MILLISECONDS,
    PERCENTILES,
    RSPAMC,
    SA_LEARN,
    UNSYNCED,
)
from tests.benchmarks.speed.processes import Children, Measured, program, run_quietly
from tests.benchmarks.speed.redis_use import RedisProcess, RedisUses, embedded_redis
from tests.benchmarks.speed.rspamd import rspamd
from tests.benchmarks.speed.spamassassin import SaLearn

_FROM = b"From bench@example.org Fri Nov  6 10:00:00 2026\n"
_CRM114 = "-{ learn <osb unique microgroom> (%s.css) /[[:graph:]]+/ }"


@dataclass(frozen=True, slots=True)
class Box:
    """The messages of one class in a turn: their files, and the same as an mbox."""

    label: str
    files: Sequence[Path]
    mbox: Path

    @classmethod
    def write(cls, label: str, messages: Sequence[Labelled], folder: Path) -> Box:
        """Write the mbox of those messages that have the label."""
        files = [path for message_label, path in messages if message_label == label]
        escaped = (path.read_bytes().replace(b"\nFrom ", b"\n>From ") for path in files)
        mbox = folder / f"{label}.mbox"
        mbox.write_bytes(b"".join(_FROM + raw + b"\n\n" for raw in escaped))
        return cls(label, files, mbox)


@dataclass(frozen=True, slots=True)
class Learner:
    """One that learns mailboxes: what it does with them, the programs whose CPU counts, and its own Redis."""

    learn: Callable[[Sequence[Box]], object]
    programs: tuple[Measured, ...] = (Children(),)
    redis: Redis | None = None


def run(bench: Bench) -> None:
    """Measure all that learn in turns, then how far a follower is behind."""
    _in_bulk(bench)
    uvloop.run(_behind(bench, taught(bench)))


def _in_bulk(bench: Bench) -> None:
    sides, uses = {}, RedisUses()
    with ExitStack() as stack:
        for who, make in LEARNERS.items():
            with bench.skipping(f"{BULK}, {who}"):
                learner = make(bench, stack)
                side = _side(bench, learner, slow=who in _SLOW)
                sides[who] = uses.watch(side, learner.redis) if learner.redis else side
        in_turns(bench, BULK, sides, has_client=False)
    uses.record(bench, BULK)


def _side(bench: Bench, learner: Learner, *, slow: bool) -> Side:
    """One side, which learns other messages in each turn."""
    size, unseen, folder = bench.scale.learned, bench.unseen, bench.new_folder("mbox")
    count = bench.scale.learned_slowly if slow else size
    turns = iter([unseen[first : first + count] for first in range(0, len(unseen), size)])

    def load(_: float) -> tuple[int, float]:
        messages = next(turns)
        boxes = [Box.write(label, messages, folder) for label in ("spam", "ham")]
        began = time.perf_counter()
        learner.learn(boxes)
        return len(messages), time.perf_counter() - began

    return Side(learner.programs, load)


def _ours(bench: Bench, stack: ExitStack, *, synced: bool = True) -> Learner:
    state = taught(bench)
    client = stack.enter_context(embedded_redis(state))
    if not synced:
        client.config_set("appendonly", "no")
    programs = (Children(), RedisProcess.of(client))
    return Learner(partial(_learn, write_config(state)), programs, client if synced else None)


def _learn(settings: Path, boxes: Sequence[Box]) -> None:
    """Learn all of them with one start."""
    first, *others = boxes
    more = [word for box in others for word in ("--and", box.label, box.mbox)]
    run_quietly(*COMMAND, "learn", "-c", settings, first.label, first.mbox, *more)


def _each(learn: Callable[[Box], object]) -> Callable[[Sequence[Box]], object]:
    """Return what learns one after another."""
    return lambda boxes: [learn(box) for box in boxes]


def _bogofilter(bench: Bench, _: ExitStack) -> Learner:
    peer = Bogofilter.copy_of_taught(bench)
    return Learner(_each(lambda box: peer.learn_mbox(box.label, box.mbox)))


def _bogofilter_alone(bench: Bench, _: ExitStack) -> Learner:
    peer = Bogofilter.copy_of_taught(bench)

    def learn(box: Box) -> None:
        for file in box.files:
            peer.learn_alone(box.label, file)

    return Learner(_each(learn))


def _rspamc(bench: Bench, stack: ExitStack) -> Learner:
    peer = stack.enter_context(rspamd(bench.new_folder("rspamd"), bench.shared / "rspamd.rdb", bench.taught))
    return Learner(_each(lambda box: peer.learn_by_rspamc(box.label, box.files)), (peer.server, peer.redis))


def _sa_learn(bench: Bench, _: ExitStack) -> Learner:
    first = bench.taught[: bench.scale.taught_to_spamassassin]
    peer = SaLearn(bench.new_folder("spamassassin"), bench.shared / "spamassassin", first)
    return Learner(_each(lambda box: peer.learn_mbox(box.label, box.mbox)))


def _crm114(bench: Bench, _: ExitStack) -> Learner:
    words = (program("crm", "crm114"), "-u", bench.new_folder("crm114"))
    return Learner(
        _each(lambda box: [run_quietly(*words, _CRM114 % box.label, input_file=file) for file in box.files])
    )


LEARNERS: dict[str, Callable[[Bench, ExitStack], Learner]] = {
    OURS: _ours,
    UNSYNCED: partial(_ours, synced=False),
    BOGOFILTER_LESSONS: _bogofilter,
    RSPAMC: _rspamc,
    SA_LEARN: _sa_learn,
    BOGOFILTER_ALONE: _bogofilter_alone,
    CRM114: _crm114,
}
_SLOW = {SA_LEARN, BOGOFILTER_ALONE, CRM114}


async def _behind(bench: Bench, state: Path) -> None:
    """Measure the time from a change in Redis until a follower in this process has applied it."""
    ham = Box.write("ham", bench.learned, bench.new_folder("mbox"))
    file_of_settings = write_config(state)
    settings = config.load_settings(file_of_settings)
    lags: list[float] = []
    async with open_redis(settings) as store:
        assert store.embedded
        await store.embedded.ensure_running()
        parts = ServerParts(settings, store, DaemonMetrics.create(choose_engine()))
        model, followed = await parts.model.open(), parts.counts
        following = asyncio.create_task(parts.follower.run())
        await followed.loaded.wait()
        learning = asyncio.create_task(asyncio.to_thread(_learn, file_of_settings, [ham]))
        newest: Any = await store.client.xrevrange(model.keys.changes, count=1)
        last = newest[0][0]
        while not learning.done():
            streams: Any = await store.client.xread({model.keys.changes: last}, block=200)
            for _, entries in streams:
                last = entries[-1][0]
                await followed.wait_until_applied(last)
                lags.append(1000 * time.time() - int(last.partition(b"-")[0]))
        following.cancel()
        await asyncio.wait([following])
    await learning
    for name, share in PERCENTILES.items():
        bench.record(f"follower behind {BULK}, {name}", MILLISECONDS, percentile(lags, share))
