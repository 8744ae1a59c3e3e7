"""The names of a change are compressed; whoever reads changes gets them back."""

from __future__ import annotations

from typing import Any

import pytest
import zstandard
from redis.asyncio import Redis

from nbstream.store.compression import compress
from nbstream.store.follower.counts import FollowedCounts
from nbstream.store.model.model import Model
from nbstream.store.model.scripts import Lesson, LessonBatch, changed_counts
from nbstream.store.transfer.archive import CountsRecord
from nbstream.store.transfer.model_snapshot import ModelSnapshot
from tests.harness.algebra import equals_redis_exactly
from tests.harness.followers import KINDS, Kind, counts_of_kind, running
from tests.harness.lessons import NOTE, TOKENS, change, entry
from tests.harness.waiting import until

MANY = [b"body:word%d" % n for n in range(2500)]  # the script reads some at a time


async def last_change(model: Model) -> dict[bytes, bytes]:
    entries: Any = await model.client.xrevrange(model.keys.changes, count=1)
    return dict(entries[0][1])


def readable(fields: dict[bytes, bytes]) -> Any:
    names, columns = changed_counts(fields)
    return list(names), [(column, counts.tolist()) for column, counts in columns]


@pytest.mark.parametrize("tokens", [[], TOKENS, MANY], ids=["none", "some", "many"])
async def test_a_change_says_which_counts_a_batch_has_changed(client: Redis, tokens: list[bytes]) -> None:
    model = await Model(client, "test", 3600).open()
    lessons = [Lesson(f"m{n}", None, entry("spam", tokens, sums=[(b"=x", 7)]), NOTE) for n in range(2)]
    await model.commit_lessons(LessonBatch(lessons))

    assert readable(await last_change(model)) == ([*tokens, b"=x"], [("spam", [*[2000] * len(tokens), 14])])


@pytest.mark.parametrize("kind", KINDS)
async def test_a_follower_follows_changes(client: Redis, kind: Kind) -> None:
    model = await Model(client, "test", 3600).open()
    async with counts_of_kind(model, kind) as followed:
        for n in range(4):
            await change(model, f"m{n}", entry("ham", TOKENS[n:]))
        await change(model, "m0", None)
        await followed.wait_until_applied(await model.last_change())
        assert await equals_redis_exactly(followed, model)
        assert followed.loads == 1


@pytest.mark.parametrize(
    "packed",
    [
        b"",
        b"no frame",
        compress(b"a\nb")[:-1],
        compress(bytes(17 << 20)),
        zstandard.ZstdCompressor(write_content_size=False).compress(b"a"),
    ],
    ids=["empty", "none", "cut", "too large", "of unknown size"],
)
async def test_names_that_cannot_be_read_make_the_follower_load_anew(client: Redis, packed: bytes) -> None:
    with pytest.raises(ValueError, match=r"damaged|cut|too large"):
        changed_counts({b"names": packed})

    model = await Model(client, "test", 3600).open()
    async with running(FollowedCounts(model)) as followed:
        fields: Any = {"sequence": 1, "totals": "0 0 0 0 0", "names": packed, "counts:ham": "1"}
        await client.incr(model.keys.sequence)
        await client.xadd(model.keys.changes, fields)
        await until(lambda: followed.loads > 1)
        assert await equals_redis_exactly(followed, model)


async def test_an_export_has_what_is_learned_meanwhile(client: Redis) -> None:
    model = await Model(client, "test", 3600).open()
    snapshot = ModelSnapshot(model)
    await snapshot.header()
    await change(model, "m1", entry("spam", TOKENS))
    records = [record async for record in snapshot.records()]
    of_change = CountsRecord("spam", dict.fromkeys(TOKENS, 1000))
    assert records.count(of_change) == 2, "one was scanned, one is of the change"
