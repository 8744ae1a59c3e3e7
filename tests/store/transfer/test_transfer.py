"""A model exported and imported: the same to the last byte, or nothing; merged: the sum over the ledger."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import gzip
import io
import json
import random
import zlib
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from redis.asyncio import Redis

from nbstream.bayes.counts import CLASSES
from nbstream.errors import InputError, NbstreamError, StoreIncompatible, StoreUnavailable
from nbstream.store.model.model import Model
from nbstream.store.model.signature import current_signature
from nbstream.store.replica.mirror import Mirror
from nbstream.store.transfer import archive
from nbstream.store.transfer.restore import ModelImport, finish_import
from nbstream.store.transfer.snapshot import ModelSnapshot
from tests.conftest import RedisServer
from tests.store.algebra import stored
from tests.store.model.test_model import SUM_NAMES, TOKENS, Step, change, entry, lessons, steps
from tests.store.replica.test_mirror import equals_redis, running

MANY = [b"t%d" % n for n in range(5000)]  # more than a step of a scan


@pytest.fixture
async def model(client: Redis) -> Model:
    return await opened(client, "source")


@pytest.fixture
async def other(client: Redis) -> Model:
    return await opened(client, "target")


async def opened(client: Redis, name: str) -> Model:
    found = Model(client, name, ledger_seconds=3600)
    await found.open()
    return found


async def exported(model: Model) -> bytes:
    stream, snapshot = io.BytesIO(), ModelSnapshot(model)
    writer = archive.ArchiveWriter(stream, await snapshot.header())
    async for record in snapshot.records():
        writer.write(record)
    writer.finish()
    return stream.getvalue()


async def staged(model: Model, content: bytes, *, merge: bool = False) -> None:
    """An import up to the mark from which on it is part of the model."""
    reader = archive.ArchiveReader(io.BytesIO(content), "FILE", current_signature())
    restore = ModelImport(model, merge=merge)
    try:
        await restore.begin()
        for record in reader:
            await restore.stage(record)
        await restore.mark_ready()
    finally:
        await restore.abandon()


async def imported(model: Model, content: bytes, *, merge: bool = False) -> int:
    await staged(model, content, merge=merge)
    kept = await finish_import(model)
    assert kept is not None
    return kept


async def everything(model: Model) -> dict[bytes, Any]:
    """Each key that a model is made of, with all of its fields; no changes and no history."""
    start = len(model.keys.ledger("")) - len("ledger:")
    found = {}
    for key in [key async for key in model.client.scan_iter(match=model.keys.pattern)]:
        if not key.endswith((b":changes", b":history", b":sequence")):
            found[key[start:]] = await model.client.hgetall(key)
    return found


async def summed(model: Model) -> Any:
    """What counts and totals are when they are the sum over the ledger's entries."""
    counts: dict[str, Counter[bytes]] = {label: Counter() for label in CLASSES}
    totals: Counter[bytes] = Counter()
    start = len(model.keys.ledger(""))
    async for key in model.client.scan_iter(match=model.keys.ledger("*")):
        found = await model.entry(key[start:].decode())
        assert found is not None
        totals[f"messages:{found.label}".encode()] += 1
        totals[f"tokens:{found.label}".encode()] += found.weight * len(found.tokens)
        counts[found.label].update(dict.fromkeys(found.tokens, found.weight))
        counts[found.label].update(dict(found.sums))
    positive = {name for each in counts.values() for name, count in each.items() if count > 0}
    totals[b"vocabulary"] = len([name for name in positive if name not in SUM_NAMES])
    return (
        {label: {name: count for name, count in counts[label].items() if count} for label in CLASSES},
        {name: value for name, value in totals.items() if value},
    )


async def teach(model: Model) -> None:
    await change(model, "m1", entry("spam", MANY, sums=[(b"=x", 5), (b"=size.xx", 2**52)]))
    await change(model, "m2", entry("ham", MANY[:3000], 7, [(b"=x", -4), (b"=messages", 1000)]))
    await change(model, "m3", entry("ham", ["körper:prüfung".encode(), b"\xff\xfe\x80 odd", b'"\\'], 0))
    await change(model, "m4", entry("spam", ["körper:prüfung".encode(), b"\xff\xfe\x80 odd", b'"\\', b"{}"]))


async def test_what_was_exported_is_imported_to_the_last_byte(model: Model, other: Model) -> None:
    await teach(model)
    content = await exported(model)

    assert await imported(other, content) == 0

    assert await everything(other) == await everything(model)
    assert len(await everything(other)) == 2 + 1 + 1 + 4


async def test_an_imported_message_is_unlearned_exactly(model: Model, other: Model) -> None:
    await teach(model)
    await imported(other, await exported(model))
    for message in ("m1", "m2", "m3", "m4"):
        await change(other, message, None)

    assert await stored(other) == ({"ham": {}, "spam": {}}, {})


async def test_entries_keep_the_lifetime_that_they_had_left(model: Model, other: Model) -> None:
    await change(model, "m1", entry("spam", TOKENS))
    await model.client.expire(model.keys.ledger("m1"), 1000)

    await imported(other, await exported(model))

    assert 900 < await other.client.ttl(other.keys.ledger("m1")) <= 1000


async def test_counts_whose_entries_have_expired_are_exported_too(model: Model, other: Model) -> None:
    await teach(model)
    await model.client.delete(model.keys.ledger("m2"))

    await imported(other, await exported(model))

    assert await stored(other) == await stored(model)


async def test_an_empty_model_can_be_exported_and_imported(model: Model, other: Model) -> None:
    await imported(other, await exported(model))

    assert await stored(other) == ({"ham": {}, "spam": {}}, {})


# One moment


async def test_an_export_while_others_learn_is_of_one_moment(model: Model, client: Redis) -> None:
    await teach(model)
    stop = asyncio.Event()

    async def write(number: int) -> None:
        step = 0
        while not stop.is_set():
            step += 1
            tokens = MANY[(number * 700 + step * 13) % 4500 :][:300]
            new = entry(CLASSES[step % 2], tokens, sums=[(b"=x", step)]) if step % 5 else None
            await change(model, f"{number}-{step % 20}", new)

    writers = [asyncio.create_task(write(number)) for number in range(4)]
    contents = [await exported(model) for _ in range(5)]
    stop.set()
    await asyncio.gather(*writers)

    for number, content in enumerate(contents):
        target = await opened(client, f"target-{number}")
        await imported(target, content)
        assert await stored(target) == await summed(target)


class Interrupted:
    """Reads a snapshot up to a point, lets something happen there, and reads the rest."""

    def __init__(self, model: Model) -> None:
        self._snapshot = ModelSnapshot(model)
        self._stream = io.BytesIO()

    async def __aenter__(self) -> Interrupted:
        self._writer = archive.ArchiveWriter(self._stream, await self._snapshot.header())
        self._records: AsyncIterator[archive.ArchiveRecord] = self._snapshot.records()
        self._writer.write(await anext(self._records))
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def rest(self) -> bytes:
        async for record in self._records:
            self._writer.write(record)
        self._writer.finish()
        return self._stream.getvalue()


async def test_what_is_learned_during_an_export_replaces_what_was_read_before(model: Model, other: Model) -> None:
    await teach(model)
    async with Interrupted(model) as export:
        await change(model, "m1", None)
        await change(model, "m2", entry("spam", MANY[:10]))
        for number in range(250):  # more than a step of the changes
            await change(model, f"n{number}", entry("ham", TOKENS))
        content = await export.rest()

    await imported(other, content)

    assert await everything(other) == await everything(model)


async def test_an_export_that_the_change_stream_has_overtaken_is_refused(model: Model) -> None:
    await teach(model)
    async with Interrupted(model) as export:
        await change(model, "m1", None)
        await change(model, "m2", None)
        await model.client.xtrim(model.keys.changes, maxlen=1)

        with pytest.raises(StoreUnavailable, match="too much meanwhile"):
            await export.rest()


async def test_an_export_does_not_mix_with_an_import(model: Model, other: Model) -> None:
    await teach(model)
    content = await exported(model)
    async with Interrupted(model) as export:
        await staged(model, content, merge=True)

        with pytest.raises(StoreUnavailable, match="import into this model is not finished"):
            await export.rest()
    await finish_import(model)
    async with Interrupted(model) as export:
        await imported(model, content, merge=True)

        with pytest.raises(StoreUnavailable, match="too much meanwhile"):
            await export.rest()


# Merge


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(theirs=steps, ours=steps, more=st.lists(st.tuples(st.sampled_from(["m1", "n1"]), lessons), max_size=2))
async def test_merged_models_are_the_sum_over_the_ledger(
    client: Redis, theirs: list[Step], ours: list[Step], more: list[Step]
) -> None:
    await client.flushall()
    model, other = await opened(client, "source"), await opened(client, "target")
    for message, new in theirs:
        await change(model, message, entry(*new) if new else None)
    for message, new in [*ours, *more]:
        await change(other, message, entry(*new) if new else None)
    before = await everything(other)

    await imported(other, await exported(model), merge=True)

    assert await stored(other) == await summed(other)
    after = await everything(other)
    known = {key: fields for key, fields in before.items() if key.startswith(b"ledger:")}
    assert {key: after[key] for key in known} == known


async def test_a_merge_adds_what_is_not_in_the_ledger_any_more(model: Model, other: Model) -> None:
    await change(model, "m1", entry("spam", TOKENS[:3]))
    await change(model, "m2", entry("ham", TOKENS[2:5]))
    await model.client.delete(model.keys.ledger("m1"))
    await change(other, "m3", entry("spam", TOKENS[1:2]))

    await imported(other, await exported(model), merge=True)

    assert (await stored(other))[0]["spam"] == {TOKENS[0]: 1000, TOKENS[1]: 2000, TOKENS[2]: 1000}
    assert (await other.totals()).vocabulary_size == 5


async def test_a_message_that_is_known_is_counted_once_and_as_it_was(model: Model, other: Model) -> None:
    await change(model, "m1", entry("spam", TOKENS[:4], 500, [(b"=x", 3)]))
    await change(other, "m1", entry("ham", TOKENS[2:], 700, [(b"=x", 9)]))
    before = await everything(other)

    assert await imported(other, await exported(model), merge=True) == 1

    assert await everything(other) == before


async def test_a_model_that_is_not_empty_is_refused_without_merge(model: Model, other: Model) -> None:
    await teach(model)
    content = await exported(model)
    await change(other, "m9", entry("ham", TOKENS))
    before = await everything(other)

    with pytest.raises(StoreIncompatible, match=r"not empty.*--merge"):
        await imported(other, content)

    assert await everything(other) == before


async def test_a_model_that_is_taught_while_the_file_is_read_is_not_empty_any_more(
    model: Model, other: Model
) -> None:
    await teach(model)
    restore = ModelImport(other, merge=False)
    await restore.begin()
    await change(other, "m9", entry("ham", TOKENS))

    with pytest.raises(StoreIncompatible, match="not empty"):
        await restore.mark_ready()

    await restore.abandon()
    assert len(await everything(other)) == 4


# Mirrors


async def test_a_mirror_that_follows_ends_equal(model: Model, other: Model) -> None:
    await teach(model)
    content = await exported(model)
    await change(other, "m1", entry("ham", TOKENS))
    async with running(Mirror(other, 5.0)) as mirror:
        await imported(other, content, merge=True)
        # An entry that came with the import may be what a repeated label waits for.
        for message in ("m1", "m2", "m4"):
            found = await other.entry(message)
            assert found is not None
            await mirror.wait_until_applied(found.change)
        await mirror.wait_until_applied(await other.last_change())

        assert await equals_redis(mirror, other, [*MANY, *TOKENS, *SUM_NAMES])
        await mirror.wait_until_applied(await change(other, "m2", None) or b"")
        assert await equals_redis(mirror, other, [*MANY, *TOKENS, *SUM_NAMES])


async def test_a_clock_that_is_behind_the_exporting_servers_makes_nobody_wait(model: Model, other: Model) -> None:
    await change(model, "m1", entry("ham", TOKENS))
    ahead = b"99999999999999-7"
    await model.client.hset(model.keys.ledger("m1"), "change", ahead)
    await imported(other, await exported(model))
    async with running(Mirror(other, 5.0)) as mirror:
        await mirror.wait_until_applied(ahead)

        await mirror.wait_until_applied(await change(other, "m2", entry("ham", TOKENS)) or b"")
        assert await equals_redis(mirror, other, TOKENS)


# All or nothing, and once


async def test_an_import_that_was_killed_when_it_had_begun_to_be_added_is_finished_once(
    model: Model, other: Model
) -> None:
    await teach(model)
    content = await exported(model)
    await staged(other, content)
    steps_left = random.Random(7)

    class Killed(Exception):
        pass

    def maybe(_: int) -> None:
        if steps_left.random() < 0.5:
            raise Killed

    kills = 0
    while True:
        try:
            if await finish_import(other, maybe) is not None:
                break
        except Killed:
            kills += 1
            await change(other, "new", entry("ham", TOKENS, kills))
            with pytest.raises(StoreUnavailable, match="another import"):
                await ModelImport(other, merge=True).begin()

    assert kills > 2
    assert await finish_import(other) is None
    await change(other, "new", None)
    assert await everything(other) == await everything(model)


async def test_two_that_finish_the_same_import_add_it_once(model: Model, other: Model) -> None:
    await teach(model)
    await staged(other, await exported(model))

    await asyncio.gather(*(finish_import(other) for _ in range(4)))

    assert await everything(other) == await everything(model)


async def test_who_finishes_late_does_not_end_the_import_that_came_next(
    model: Model, other: Model, shared_redis: RedisServer
) -> None:
    await teach(model)
    await staged(other, await exported(model))
    another = redis.Redis.from_url(shared_redis.url)

    def meanwhile(_: int) -> None:  # somebody else was faster, and the next one has begun
        another.set(other.keys.importing, "ready 0123456789abcdef 0-0")

    await finish_import(other, meanwhile)
    another.close()

    assert await other.client.get(other.keys.importing) == b"ready 0123456789abcdef 0-0"
    assert await stored(other) == await stored(model)


async def test_what_a_killed_import_staged_is_removed_by_the_next(model: Model, other: Model) -> None:
    await teach(model)
    content = await exported(model)
    restore = ModelImport(other, merge=False)
    await restore.begin()
    for record in archive.ArchiveReader(io.BytesIO(content), "FILE", current_signature()):
        await restore.stage(record)
    with pytest.raises(StoreUnavailable, match="another import"):
        await imported(other, content)
    await other.client.delete(other.keys.importing)  # as it is after a minute

    await imported(other, content)

    assert await everything(other) == await everything(model)
    with pytest.raises(StoreUnavailable, match="another one has begun"):
        await restore.mark_ready()


def lines(content: bytes) -> list[bytes]:
    return gzip.decompress(content).splitlines(keepends=True)


def same_inside(one: bytes, other: bytes) -> bool:
    with contextlib.suppress(OSError, EOFError, zlib.error):
        return gzip.decompress(one) == gzip.decompress(other)
    return False


async def refused(other: Model, content: bytes) -> NbstreamError:
    """The error of an import; the target has not a key more or less afterwards, nor another field."""
    before = await everything(other)
    with pytest.raises(NbstreamError) as raised:
        await imported(other, content)
    assert await everything(other) == before
    return raised.value


async def test_a_file_that_was_cut_anywhere_is_refused_and_changes_nothing(model: Model, other: Model) -> None:
    await teach(model)
    content = await exported(model)

    for length in [0, 1, 9, 10, 11, 100, *range(200, len(content), 1500), len(content) - 8, len(content) - 1]:
        assert isinstance(await refused(other, content[:length]), InputError), length
    whole = lines(content)
    for count in range(len(whole)):  # cut, and compressed again
        assert isinstance(await refused(other, gzip.compress(b"".join(whole[:count]))), InputError)


async def test_a_file_with_a_bit_flipped_anywhere_is_refused_and_changes_nothing(
    model: Model, other: Model
) -> None:
    await change(model, "m1", entry("spam", TOKENS))
    content = await exported(model)
    draw = random.Random(7)

    for _ in range(200):  # what is inside, as if the compression had no checksum of its own
        inside = bytearray(gzip.decompress(content))
        inside[draw.randrange(len(inside))] ^= 1 << draw.randrange(8)
        await refused(other, gzip.compress(bytes(inside)))
    for place in range(10, len(content)):  # beyond gzip's header, which holds nothing that matters
        flipped = bytearray(content)
        flipped[place] ^= 1 << draw.randrange(8)
        if not same_inside(bytes(flipped), content):  # some bits between gzip's blocks mean nothing
            await refused(other, bytes(flipped))


async def test_lines_that_are_left_out_doubled_or_swapped_are_refused(model: Model, other: Model) -> None:
    await teach(model)
    first, *rest, last = lines(await exported(model))

    for wrong in ([*rest[1:]], [rest[0], *rest], [*reversed(rest)]):
        error = await refused(other, gzip.compress(b"".join([first, *wrong, last])))
        assert "does not match its own checksum" in str(error)
    more = await refused(other, gzip.compress(b"".join([first, *rest, last, rest[0]])))
    assert "does not match its own checksum" in str(more)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"garbage",
        gzip.compress(b""),
        gzip.compress(b"{}\n"),
        gzip.compress(b"[]\n"),
        gzip.compress(b"[" * 99999),
    ],
    ids=["nothing", "no gzip", "empty gzip", "another object", "a list", "nesting"],
)
async def test_what_is_no_export_is_refused_as_that(other: Model, content: bytes) -> None:
    assert "no model that nbstream has exported" in str(await refused(other, content)) or content[:1] == b"\x1f"


def forged(*records: bytes) -> bytes:
    """A file of these lines, whole by its own checksum."""
    stream = io.BytesIO()
    writer = archive.ArchiveWriter(stream, archive.new_header(current_signature(), 1))
    for record in records:
        writer._gzip.write(record)
        writer._digest.update(record)
        writer._lines += 1
    writer.finish()
    return stream.getvalue()


@pytest.mark.parametrize(
    "line",
    [
        b'{"counts":"eggs","of":{"a":1}}\n',
        b'{"counts":"ham","of":{"a":1.5}}\n',
        b'{"counts":"ham","of":{"a":true}}\n',
        b'{"counts":"ham","of":{"a":9007199254740992}}\n',
        b'{"counts":"ham","of":["a"]}\n',
        b'{"counts":"ham","of":{"a\\nb":1}}\n',
        b'{"counts":"ham","of":{"":1}}\n',
        b'{"message":"a:b","milliseconds":1,"fields":{}}\n',
        b'{"message":"a","milliseconds":1,"fields":{"tokens":"%"}}\n',
        b'{"message":"a","milliseconds":1,"fields":{"label":"ham"}}\n',
        b'{"message":"a","milliseconds":1,"fields":{"version":"1","label":"eggs","weight":"1","tokens":"eJwDAAAAAAE=",'
        b'"sums":"","learned_at":"1","source":"","actor":"","score":"1","change":"1-1"}}\n',
        b'{"totals":null}\n',
        b"[]\n",
        b"7\n",
        b'"sha256"\n',
        b'["sha256"]\n',
    ],
)
async def test_a_line_that_is_no_record_is_refused_and_changes_nothing(other: Model, line: bytes) -> None:
    assert await refused(other, forged(b'{"counts":"ham","of":{"a":1}}\n', line))


def message_line(milliseconds: str = "1000", **changed: str) -> bytes:
    fields = {
        name: base64.b64encode(value).decode() if isinstance(value, bytes) else value
        for name, value in entry("ham", [b"a"]).pack().items()
    }
    told = json.dumps({"message": "m", "milliseconds": 0, "fields": {**fields, "change": "1-1", **changed}})
    return told.replace('"milliseconds": 0', f'"milliseconds": {milliseconds}').encode() + b"\n"


@pytest.mark.parametrize(
    "line",
    [
        message_line("1e999"),
        message_line("1.5"),
        message_line(str(10**18)),
        message_line(weight=str(2**53)),
        message_line(sums=f"=x {2**53}"),
        message_line(of_another="program"),
        message_line(sums="=x 1 =x 1"),
        message_line(tokens=base64.b64encode(zlib.compress(b"a\nb\na")).decode()),
        message_line(tokens=base64.b64encode(zlib.compress(bytes(65 << 20))).decode()),
    ],
)
async def test_an_entry_that_nobody_can_have_learned_is_refused(other: Model, line: bytes) -> None:
    assert await refused(other, forged(line))


async def test_an_entry_like_any_other_is_not_refused(other: Model) -> None:
    assert await imported(other, forged(message_line())) == 0


@pytest.mark.parametrize("field", sorted(current_signature()))
async def test_a_model_of_another_kind_is_refused_with_both_named(other: Model, field: str) -> None:
    stream = io.BytesIO()
    archive.ArchiveWriter(stream, archive.new_header({**current_signature(), field: "999"}, 0)).finish()

    error = await refused(other, stream.getvalue())

    assert isinstance(error, StoreIncompatible)
    assert f"{field} 999 (this is {current_signature()[field]})" in str(error)


async def test_another_version_of_the_format_is_refused_with_both_named(model: Model, other: Model) -> None:
    first, *rest = lines(await exported(model))
    content = gzip.compress(b"".join([first.replace(b'"version":1', b'"version":2'), *rest]))

    error = await refused(other, content)

    assert isinstance(error, StoreIncompatible)
    assert "format version 2 (this is 1)" in str(error)
