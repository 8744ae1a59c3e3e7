"""What one lesson costs Redis: its CPU by command, what it writes to the append-only file, and the floor of both.

The messages are those after the taught ones, committed in steps of several lessons of one class. The floor is
what the same increments cost by themselves, without ledger, history and change: as a pipeline of HINCRBY, and as
HMGET and HSET of all counts. Cost by command is what Redis itself measured, which includes waits for a core.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import uvloop

from nbstream import config
from nbstream.assembly.policy import make_message_reader
from nbstream.assembly.store import make_model, open_redis
from nbstream.bayes.counts import CLASSES
from nbstream.policy.prequential_scores import PrequentialScore
from nbstream.store.model.history import Assessment, LessonNote
from nbstream.store.model.ledger import LedgerEntry
from nbstream.store.model.model import Model
from nbstream.store.model.scripts import Lesson, LessonBatch
from nbstream.tokens.tokenizer import Tokenizer
from tests.benchmarks.speed import lesson_stages
from tests.benchmarks.speed.bench import Bench
from tests.benchmarks.speed.daemons import taught, write_config
from tests.benchmarks.speed.plan import BYTES_WRITTEN, CPU_MICROSECONDS, MICROSECONDS

SIZES = (1, 4, 16, 64)
"""How many lessons wait at the same time; those of each class are a step."""

FLOOR = "floor, 1 at once: "

_WEIGHT = 13  # the mean of a taught model
_MILLION = 1e6
_NOTE = LessonNote("http", "bench", Assessment(0.123456789, "ham"), Assessment(0.0123456789, "ham"))
_COMMANDS = {"evalsha": "the script", "hmget": "HMGET", "hset": "HSET", "xadd": "XADD"}
_KEYS = {
    "counts": "counts",
    "changes": "change",
    "ledger": "ledger",
    "history": "history",
    "first": "prequential score",
}

Commit: TypeAlias = "Callable[[Model, Sequence[Lesson]], Awaitable[object]]"


def run(bench: Bench) -> None:
    """Measure steps of each size, then the floor; then the stages of a daemon."""
    for size in SIZES:
        uvloop.run(_measure(bench, taught(bench), f"{size} at once", size, _by_script))
    for case, commit in {"HINCRBY": _by_hincrby, "HMGET and HSET": _by_hset}.items():
        uvloop.run(_measure(bench, taught(bench), f"{FLOOR}{case}", 1, commit))
    lesson_stages.run(bench)


async def _measure(bench: Bench, state: Path, case: str, size: int, commit: Commit) -> None:
    settings = config.load_settings(write_config(state))
    async with open_redis(settings) as store:
        assert store.embedded
        await store.embedded.ensure_running()
        model = await make_model(settings, store.client).open()
        lessons = await _unknown(model, _lessons(bench, settings))
        steps = [
            step
            for first in range(0, len(lessons), size)
            for label in CLASSES
            if (
                step := [
                    lesson for lesson in lessons[first : first + size] if lesson.new and lesson.new.label == label
                ]
            )
        ]
        await store.client.config_set("auto-aof-rewrite-percentage", 0)  # all that is appended can be read then
        await store.client.config_resetstat()
        before, sizes = await _cpu_seconds(model), _sizes(state)
        for step in steps:
            await commit(model, step)
        microseconds = _MILLION * (await _cpu_seconds(model) - before) / len(lessons)
        bench.record(case, CPU_MICROSECONDS, microseconds)
        written = _written(state, sizes)
        bench.record(case, BYTES_WRITTEN, written.total() / len(lessons))
        if not case.startswith(FLOOR):
            stats: Any = await store.client.info("commandstats")
            for command, name in _COMMANDS.items():
                used = stats.get(f"cmdstat_{command}", {"usec": 0})["usec"]
                bench.record(f"{case}: {name}", MICROSECONDS, used / len(lessons))
            for name, length in written.most_common():
                bench.record(f"{case}: {name}", BYTES_WRITTEN, length / len(lessons))


def _lessons(bench: Bench, settings: config.Settings) -> Iterator[Lesson]:
    tokenizer, reader = Tokenizer(), make_message_reader(settings)
    for n, (label, path) in enumerate(bench.learned):
        taken = tokenizer.take_apart(reader.read_incoming(path.read_bytes()))
        first = PrequentialScore(1.7e9 + n, taken.key, 0.123456789).pack()
        entry = LedgerEntry(
            version=f"{n:016x}",
            column=label,
            weight=_WEIGHT,
            tokens=taken.tokens.all,
            learned_at=1.7e9 + n,
            source="http",
            actor="bench",
            score=12.3456789,
            sums=((b"=score+21", 1000),),
            prequential_score=first,
        )
        yield Lesson(taken.key, None, entry, _NOTE)


async def _unknown(model: Model, lessons: Iterator[Lesson]) -> list[Lesson]:
    """Return the lessons of distinct messages that the model does not know."""
    distinct = {lesson.message_key: lesson for lesson in lessons}
    known = await model.labels(list(distinct))
    return [lesson for key, lesson in distinct.items() if key not in known]


async def _by_script(model: Model, lessons: Sequence[Lesson]) -> None:
    answers = await model.commit_lessons(LessonBatch(lessons))
    assert all(isinstance(answer, bytes) for answer in answers), "a lesson was not committed"


async def _by_hincrby(model: Model, lessons: Sequence[Lesson]) -> None:
    async with model.client.pipeline(transaction=True) as pipe:
        for key, names in _increments(model, lessons):
            for name in names:
                pipe.hincrby(key, name, _WEIGHT)
        await pipe.execute()


async def _by_hset(model: Model, lessons: Sequence[Lesson]) -> None:
    for key, names in _increments(model, lessons):
        counts: Any = await model.client.hmget(key, names)
        after: Any = {name: int(count or 0) + _WEIGHT for name, count in zip(names, counts, strict=True)}
        await model.client.hset(key, mapping=after)


def _increments(model: Model, lessons: Sequence[Lesson]) -> Iterator[tuple[str, list[bytes]]]:
    for lesson in lessons:
        assert lesson.new
        yield model.keys.counts(lesson.new.column), list(lesson.new.tokens)


async def _cpu_seconds(model: Model) -> float:
    """Return user and system time of the thread that carries out commands."""
    info: Any = await model.client.info("cpu")
    return float(info["used_cpu_user_main_thread"] + info["used_cpu_sys_main_thread"])


def _sizes(state: Path) -> dict[Path, int]:
    return {file: file.stat().st_size for file in (state / "redis" / "appendonlydir").glob("*.incr.aof")}


def _written(state: Path, sizes: dict[Path, int]) -> Counter[str]:
    """Return how many bytes were appended since the files had these ``sizes``, by what they are about."""
    written = Counter[str]()
    for file in _sizes(state):
        for words, length in _commands(file.read_bytes()[sizes.get(file, 0) :]):
            kinds = words[1].decode("utf-8", "replace").split(":")[2:] if words[1:] else []
            written[_KEYS.get(kinds[0] if kinds else "", "the rest")] += length
    return written


def _commands(content: bytes) -> Iterator[tuple[list[bytes], int]]:
    """Yield the commands of an append-only file with their lengths."""
    position = 0
    while position < len(content):
        start = position
        end = content.index(b"\r\n", position)
        count, position, words = int(content[position + 1 : end]), end + 2, []
        for _ in range(count):
            end = content.index(b"\r\n", position)
            length = int(content[position + 1 : end])
            words.append(content[end + 2 : end + 2 + length])
            position = end + 2 + length + 2
        yield words, position - start
