"""What own models cost: Redis for each token, the memory of a process, a check, and a load.

    python -m tests.benchmarks.own_models_cost CORPUS [--users 1000] [--active 100]

CORPUS is a folder with ``index.tsv`` (``label<TAB>path``). A Redis server without persistence is started for this,
and the parts of a daemon's process, with its metrics and its memory of checked messages. The common model learns
the first 3,000 messages; each user is taught messages of the corpus until his model has 5,000 tokens. Then the
same 2,000 messages are checked by turns with the common model, and with those of the active users, in one run.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from nbstream.assembly.store import RedisClients
from nbstream.config import Settings
from nbstream.daemon.metrics import DaemonMetrics
from nbstream.daemon.parts import ServerParts, make_parts
from nbstream.engine.choice import choose_engine
from nbstream.filter import Filter
from nbstream.mail.message import Message
from nbstream.own_models.filters import OwnFilters
from nbstream.own_models.settings import make_names
from nbstream.policy.lesson_source import LessonSource
from nbstream.store.cancellation import cancel_and_wait
from nbstream.store.connection import ConnectionOptions, open_client
from nbstream.store.embedded.server_programs import find_servers
from tests.conftest import RedisServer
from tests.filter.filters import labelled

COMMON_MESSAGES, CHECKS, LESSONS, TOKENS, ROUNDS = 3000, 2000, 2000, 5000, 5

LabelledMessage = tuple[str, Message]


def read_corpus(folder: Path, count: int) -> list[LabelledMessage]:
    lines = (folder / "index.tsv").read_text().splitlines()[:count]
    pairs = (line.split("\t")[:2] for line in lines)
    return [(label, Message.parse((folder / path).read_bytes())) for label, path in pairs]


@asynccontextmanager
async def open_process(redis: RedisServer, state: Path) -> AsyncIterator[tuple[ServerParts, OwnFilters]]:
    """The parts of a daemon's process, which follow Redis; automatic learning is off."""
    settings = Settings.model_validate(
        {
            "state_dir": str(state),
            "models": [{"match": "*@example.org", "name": "{address}"}],
            "autolearn": None,
            "redis": {"url": redis.url},
        }
    )
    engine, options = choose_engine("auto"), ConnectionOptions(redis.url)
    client, blocking = open_client(options), open_client(options)
    parts = make_parts(settings, engine, RedisClients(client, blocking), DaemonMetrics.create(engine))
    work = (parts.mirror.run, parts.own_models.run, parts.recent_messages.run)
    tasks = [asyncio.create_task(run()) for run in work]
    try:
        await parts.mirror.loaded.wait()
        names = make_names(settings.models, settings.own_models)
        yield parts, OwnFilters(parts.spam_filter, names, parts.own_models, 10.0)
    finally:
        for task in tasks:
            await cancel_and_wait(task)
        await client.aclose()
        await blocking.aclose()


async def teach(learner: Filter, messages: Sequence[LabelledMessage]) -> None:
    for label in ("ham", "spam"):
        wanted = [message for name, message in messages if name == label]
        await learner.learn_many(labelled(_each(wanted), label), LessonSource("bench"), lambda _: None)


async def _each(messages: Sequence[Message]) -> AsyncIterator[Message]:
    for message in messages:
        yield message


async def fill_models(
    parts: ServerParts, filters: OwnFilters, addresses: Sequence[str], lessons: Iterator[LabelledMessage]
) -> None:
    """Teach each user until his model has enough tokens, and print what that takes in Redis."""
    client, tokens, counted, entries = parts.clients.client, 0, 0, 0
    before = (await client.info("memory"))["used_memory"]
    for address in addresses:
        learner = await filters.for_teacher(address)
        own = await parts.own_models.load(address)
        while own.totals.vocabulary_size < TOKENS:
            await teach(learner, list(itertools.islice(lessons, 10)))
        tokens += own.totals.vocabulary_size
    used = (await client.info("memory"))["used_memory"] - before
    for address in addresses[:50]:
        for key in (await parts.own_models.load(address)).model.keys.counts:
            counted += await client.memory_usage(key, samples=0) or 0
            entries += await client.hlen(key)
    print(f"{len(addresses)} users, {tokens / len(addresses):.0f} tokens each")
    print(f"Redis: {counted / entries:.0f} bytes of counts for a token and class")
    print(f"Redis: {used / len(addresses) / 1024:.0f} kB of a user: counts, ledger, history, changes")


async def load_models(parts: ServerParts, addresses: Sequence[str]) -> None:
    seconds = []
    for address in addresses:
        parts.own_models.drop(address)
        started = time.perf_counter()
        await parts.own_models.load(address)
        seconds.append(time.perf_counter() - started)
    each = parts.own_models.bytes_used / parts.own_models.cached / 1024
    print(f"a load: median {1000 * statistics.median(seconds):.1f} ms; {each:.0f} kB of memory each")


async def check_all(filters: OwnFilters, messages: Sequence[Message], addresses: Sequence[str] | None) -> float:
    """Return the seconds of one check."""
    started = time.perf_counter()
    for number, message in enumerate(messages):
        own = filters.common
        if addresses:
            (own,) = await filters.for_recipients([addresses[number % len(addresses)]])
        await own.check(message)
    return (time.perf_counter() - started) / len(messages)


async def measure(folder: Path, users: int, active: int, redis: RedisServer, state: Path) -> None:
    corpus = read_corpus(folder, COMMON_MESSAGES + CHECKS + LESSONS)
    messages = [message for _, message in corpus[COMMON_MESSAGES : COMMON_MESSAGES + CHECKS]]
    addresses = [f"user{number}@example.org" for number in range(users)]
    async with open_process(redis, state) as (parts, filters):
        await teach(parts.spam_filter, corpus[:COMMON_MESSAGES])
        await fill_models(parts, filters, addresses, itertools.cycle(corpus[COMMON_MESSAGES + CHECKS :]))
        await load_models(parts, addresses[:active])
        empty = [f"new{number}@example.org" for number in range(active)]
        whose = {"common model": None, "own models": addresses[:active], "own models, empty": empty}
        for number in range(0, active, 50):
            await filters.for_recipients(empty[number : number + 50])
        rounds: dict[str, list[float]] = {name: [] for name in whose}
        for name, of_whom in itertools.chain.from_iterable(whose.items() for _ in range(ROUNDS)):
            rounds[name].append(await check_all(filters, messages, of_whom))
            await parts.recent_messages.wait_until_written()
        base = statistics.median(rounds["common model"])
        for name, seconds in rounds.items():
            median = statistics.median(seconds)
            print(f"a check, {name}: {1e6 * median:.0f} us, {median / base:.2f} of the common model's")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--users", type=int, default=1000)
    parser.add_argument("--active", type=int, default=100)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        redis = RedisServer(find_servers()[0], Path(folder))
        redis.start()
        try:
            asyncio.run(measure(options.corpus, options.users, options.active, redis, Path(folder, "state")))
        finally:
            redis.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
