"""What own models cost: Redis for each token, the memory of a process, a check, and a load.

    python -m tests.benchmarks.own_models_cost CORPUS [--users 1000] [--active 100]

CORPUS is a folder with ``index.tsv`` (``label<TAB>path``). A Redis server is started for this, without persistence.
The common model learns the first 3,000 messages; each user is taught messages of the corpus until his model has
5,000 tokens. Then the same 2,000 messages are checked by turns with the common model, and with those of the active
users, in one run.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import resource
import statistics
import sys
import tempfile
import time
from pathlib import Path

from nbstream.assembly.filter import make_filter
from nbstream.assembly.store import RedisClients, make_mirror, make_model, make_own_models
from nbstream.config import Settings
from nbstream.engine.choice import choose_engine
from nbstream.mail.message import Message
from nbstream.own_models.filters import OwnFilters
from nbstream.own_models.settings import make_names
from nbstream.policy.lesson_source import LessonSource
from nbstream.store.cancellation import cancel_and_wait
from nbstream.store.connection import ConnectionOptions, open_client
from nbstream.store.embedded.server_programs import find_servers
from tests.conftest import RedisServer

COMMON_MESSAGES, CHECKS, TOKENS = 3000, 2000, 5000


def read_corpus(folder: Path, count: int) -> list[tuple[str, Message]]:
    lines = (folder / "index.tsv").read_text().splitlines()[:count]
    pairs = (line.split("\t")[:2] for line in lines)
    return [(label, Message.parse((folder / path).read_bytes())) for label, path in pairs]


async def measure(folder: Path, users: int, active: int, redis: RedisServer) -> None:
    settings = Settings.model_validate(
        {"models": [{"match": "*@example.org", "name": "{address}"}], "autolearn": None, "redis": {"url": redis.url}}
    )
    engine = choose_engine("auto")
    options = ConnectionOptions(redis.url)
    client, blocking = open_client(options), open_client(options)
    clients = RedisClients(client, blocking)
    model, mirror = make_model(settings, client), make_mirror(settings, clients, make_model(settings, blocking), engine)
    models = make_own_models(settings, clients, engine)
    tasks = [asyncio.create_task(mirror.run()), asyncio.create_task(models.run())]
    await mirror.loaded.wait()
    common = make_filter(settings, model, mirror, engine=engine)
    filters = OwnFilters(common, make_names(settings.models, settings.own_models), models, 10.0)
    corpus = read_corpus(folder, COMMON_MESSAGES + CHECKS + 2000)
    async def teach(learner, messages) -> None:  # type: ignore[no-untyped-def]
        for label in ("ham", "spam"):
            async def of_label():  # type: ignore[no-untyped-def]
                for name, message in messages:
                    if name == label:
                        yield message
            await learner.learn_many(of_label(), label, LessonSource("bench"), lambda _: None)

    await teach(common, corpus[:COMMON_MESSAGES])
    lessons = itertools.cycle(corpus[COMMON_MESSAGES + CHECKS :])
    before = (await client.info("memory"))["used_memory"]
    addresses = [f"user{number}@example.org" for number in range(users)]
    tokens = 0
    for address in addresses:
        learner = await filters.for_teacher(address)
        while (counts := models.find(address)) and counts.totals.vocabulary_size < TOKENS:
            await teach(learner, list(itertools.islice(lessons, 10)))
        tokens += counts.totals.vocabulary_size if counts else 0
    used = (await client.info("memory"))["used_memory"] - before
    counted, entries = 0, 0
    for address in addresses[:50]:
        keys = (await models.load(address)).model.keys
        for key in keys.counts:
            counted += await client.memory_usage(key, samples=0) or 0
            entries += await client.hlen(key)
    print(f"{users} users, {tokens / users:.0f} tokens each; engine {engine.name}")
    print(f"Redis, counts: {counted / entries:.0f} bytes for a token and class; everything of a user {used / users / 1024:.0f} kB")

    for name in list(models._cached):
        models.drop(name)
    rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seconds = []
    for address in addresses[:active]:
        started = time.perf_counter()
        await models.load(address)
        seconds.append(time.perf_counter() - started)
    print(
        f"load of an own model: median {1000 * statistics.median(seconds):.2f} ms; in memory "
        f"{models.bytes_used / active / 1024:.0f} kB each (by the cache's own count; peak RSS {rss / 1024:.0f} MB)"
    )
    checks = [message for _, message in corpus[COMMON_MESSAGES : COMMON_MESSAGES + CHECKS]]
    taught, untaught = addresses[:active], [f"new{number}@example.org" for number in range(active)]
    await filters.for_recipients(untaught[:50])
    await filters.for_recipients(untaught[50:])
    rounds: dict[str, list[float]] = {"common": [], "own": [], "own, empty": []}
    for _ in range(5):
        for name, who in (("common", None), ("own", taught), ("own, empty", untaught)):
            started = time.perf_counter()
            for number, message in enumerate(checks):
                if who is None:
                    await common.check(message)
                    continue
                (own,) = await filters.for_recipients([who[number % len(who)]])
                await own.check(message)
            rounds[name].append((time.perf_counter() - started) / len(checks))
    base = statistics.median(rounds["common"])
    for name, values in rounds.items():
        median = statistics.median(values)
        print(f"a check, {name}: {1e6 * median:.0f} us, {median / base:.2f} of the common model's")
    for task in tasks:
        await cancel_and_wait(task)
    await client.aclose()
    await blocking.aclose()


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
            asyncio.run(measure(options.corpus, options.users, options.active, redis))
        finally:
            redis.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
