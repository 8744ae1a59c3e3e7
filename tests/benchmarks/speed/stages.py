"""The stages of a check, and the whole check in process, beside bogofilter's on the same messages.

CPU time, taken in turns. A whole check is what the daemon does with each message: line ends and fields of its own,
key, tokens, score, verdict, metrics, and what the memory packs and sends to Redis afterwards. Bare is without the
last two. What Redis itself spends is in the figures of the listeners alone.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path

import uvloop

from nbstream.daemon.assembly.policy import make_header_policy
from nbstream.engine.choice import PYTHON, choose_engine
from nbstream.filter import Filter
from nbstream.mail.header_edits import edit_message
from tests.benchmarks.speed.bench import Bench
from tests.benchmarks.speed.bogofilter import Bogofilter
from tests.benchmarks.speed.daemons import InProcessDaemon, in_process_daemon, taught
from tests.benchmarks.speed.plan import BOGOFILTER, CHECK, CPU_MICROSECONDS

_MILLION = 1e6
_AT_ONCE = 64
_BY_PYTHON = ", engine: python"


def run(bench: Bench) -> None:
    """Measure both engines and bogofilter in turns; bogofilter is left out if it is missing."""
    peer: Bogofilter | None = None
    with bench.skipping(BOGOFILTER):
        peer = Bogofilter(bench.shared / "bogofilter", bench.taught)
        bench.report.machine["bogofilter"] = peer.version
    uvloop.run(_measure(bench, peer, taught(bench), taught(bench)))


async def _measure(bench: Bench, peer: Bogofilter | None, state: Path, other_state: Path) -> None:
    raws = [path.read_bytes() for _, path in bench.checked]
    bench.report.machine["mean message"] = f"{sum(map(len, raws)) / len(raws):,.0f} bytes"
    costs: dict[str, list[float]] = {}
    theirs: list[float] = []
    engine = choose_engine()
    bench.report.machine["engine"] = str(engine)
    async with (
        in_process_daemon(state, engine) as ours,
        in_process_daemon(other_state, PYTHON) as python,
    ):
        for _ in range(bench.scale.rounds):
            for suffix, daemon in {"": ours, _BY_PYTHON: python}.items():
                cases = {f"{CHECK}{suffix}": daemon.watched, f"{CHECK}, bare{suffix}": daemon.bare}
                found = {case: await _checks(daemon, each, raws) for case, each in cases.items()}
                found |= {f"{stage}{suffix}": cost for stage, cost in (await _stages(daemon, raws)).items()}
                for case, microseconds in found.items():
                    costs.setdefault(case, []).append(microseconds)
            if peer:
                seconds, verdicts = await asyncio.to_thread(peer.check, bench.checked)
                assert len(verdicts) == len(raws), "bogofilter did not judge every file"
                theirs.append(seconds * _MILLION / len(raws))
        assert not ours.dropped + python.dropped, "the memory could not keep up"
    for case, values in costs.items():
        bench.record(case, CPU_MICROSECONDS, *values)
    if theirs:
        bench.record(CHECK, CPU_MICROSECONDS, *theirs, who=BOGOFILTER)


async def _checks(ours: InProcessDaemon, spam_filter: Filter, raws: Sequence[bytes]) -> float:
    """Microseconds of CPU a message, until the memory has written the last."""
    started = time.process_time()
    for first in range(0, len(raws), _AT_ONCE):
        for raw in raws[first : first + _AT_ONCE]:
            await spam_filter.check(ours.reader.read_incoming(raw))
        await (
            ours.memory.wait_until_written()
        )  # as between the requests of a listener: it drops what it cannot queue
        await asyncio.sleep(0)  # lets the follower run, or it regards Redis as unavailable
    return (time.process_time() - started) * _MILLION / len(raws)


class _Watch:
    """CPU seconds by stage."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.process_time()

    def begin(self) -> None:
        """Begin a stage now."""
        self._last = time.process_time()

    def end(self, stage: str) -> None:
        """End a stage that began at ``begin`` or at the last end."""
        now = time.process_time()
        self.seconds[stage] = self.seconds.get(stage, 0.0) + now - self._last
        self._last = time.process_time()


async def _stages(ours: InProcessDaemon, raws: Sequence[bytes]) -> dict[str, float]:
    """Microseconds of CPU a message by stage."""
    settings, watch, tokenizer = ours.settings, _Watch(), ours.bare.parts.tokenizer
    header_policy = make_header_policy(settings)
    scorer = ours.bare.parts.make_scorer(ours.bare.policy)
    for raw in raws:
        await asyncio.sleep(0)  # lets the follower run
        watch.begin()
        message = ours.reader.read_incoming(raw)
        watch.end("line ends, fields of ours")
        taken = tokenizer.tokenize(message)
        watch.end("take apart")
        check = await scorer.check_now(taken.key, taken.tokens)
        watch.end("look up, score")
        b"".join(edit_message(message.raw, header_policy.edits(check)))
        watch.end("render")
    return {stage: seconds * _MILLION / len(raws) for stage, seconds in watch.seconds.items()}
