"""An import restores the exported model to the last byte, or fails."""

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
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from nbstream.bayes.columns import CLASSES
from nbstream.errors import InputError, NbstreamError, StoreIncompatible, StoreRefuses, StoreUnavailable
from nbstream.store.compression import compress
from nbstream.store.connection import ConnectionOptions, open_client
from nbstream.store.follower.counts import FollowedCounts
from nbstream.store.lua import lua_script
from nbstream.store.model.model import Model
from nbstream.store.model.scripts import MAX_BATCH_COUNTS, Lesson, LessonBatch
from nbstream.store.model.signature import current_signature
from nbstream.store.transfer import archive
from nbstream.store.transfer.model_import import ModelImport, import_archive
from nbstream.store.transfer.model_snapshot import ModelSnapshot
from tests.harness.algebra import stored
from tests.harness.followers import running
from tests.harness.lessons import NOTE, SUM_NAMES, TOKENS, change, entry
from tests.harness.model_archives import export_model, import_model, open_model, stored_hashes
from tests.harness.redis.proxy import Fate, Proxy
from tests.harness.redis.redis_server import RedisServer
from tests.store.bombs import little_memory
from tests.store.follower.test_counts import equals_redis

MANY = [b"t%d" % n for n in range(5000)]  # more than a step of a scan


@pytest.fixture
async def model(client: Redis) -> Model:
    return await open_model(client, "source")


@pytest.fixture
async def other(client: Redis) -> Model:
    return await open_model(client, "target")


async def summed(model: Model) -> Any:
    """The counts and totals that are the sum over the ledger's entries."""
    counts: dict[str, Counter[bytes]] = {label: Counter() for label in CLASSES}
    totals: Counter[bytes] = Counter()
    start = len(model.keys.ledger(""))
    async for key in model.client.scan_iter(match=model.keys.ledger("*")):
        ledger_entry = await model.entry(key[start:].decode())
        assert ledger_entry is not None
        totals[f"messages:{ledger_entry.label}".encode()] += 1
        totals[f"tokens:{ledger_entry.label}".encode()] += ledger_entry.weight * len(ledger_entry.tokens)
        counts[ledger_entry.label].update(dict.fromkeys(ledger_entry.tokens, ledger_entry.weight))
        counts[ledger_entry.label].update(dict(ledger_entry.sums))
    positive = {name for of_class in counts.values() for name, count in of_class.items() if count > 0}
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


async def test_an_imported_model_equals_the_exported_one_to_the_last_byte(model: Model, other: Model) -> None:
    await teach(model)
    content = await export_model(model)

    await import_model(other, content)

    assert await stored_hashes(other) == await stored_hashes(model)
    assert len(await stored_hashes(other)) == 2 + 1 + 1 + 4


async def test_entries_keep_their_remaining_lifetime(model: Model, other: Model) -> None:
    await change(model, "m1", entry("spam", TOKENS))
    await model.client.expire(model.keys.ledger("m1"), 1000)

    await import_model(other, await export_model(model))

    assert 900 < await other.client.ttl(other.keys.ledger("m1")) <= 1000


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
    contents = [await export_model(model) for _ in range(2)]
    stop.set()
    await asyncio.gather(*writers)

    for number, content in enumerate(contents):
        target = await open_model(client, f"target-{number}")
        await import_model(target, content)
        assert await stored(target) == await summed(target)


class InterruptedExport:
    """Exports a model up to a point, lets something happen there, and exports the rest."""

    def __init__(self, model: Model) -> None:
        self._snapshot = ModelSnapshot(model)
        self._stream = io.BytesIO()

    async def __aenter__(self) -> InterruptedExport:
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


async def test_a_lesson_during_an_export_replaces_the_records_read_before(model: Model, other: Model) -> None:
    await teach(model)
    async with InterruptedExport(model) as export:
        await change(model, "m1", None)
        await change(model, "m2", entry("spam", MANY[:10]))
        for number in range(250):  # more than a step of the changes
            await change(model, f"n{number}", entry("ham", TOKENS))
        for first in (0, 50, 100):
            await model.commit_lessons(
                LessonBatch(
                    Lesson(f"b{number}", None, entry("spam", MANY[:9]), NOTE)
                    for number in range(first, first + 50)
                )
            )
        content = await export.rest()

    await import_model(other, content)

    assert await stored_hashes(other) == await stored_hashes(model)


async def test_an_export_fails_if_the_change_stream_was_trimmed_meanwhile(model: Model) -> None:
    await teach(model)
    async with InterruptedExport(model) as export:
        await change(model, "m1", None)
        await change(model, "m2", None)
        await model.client.xtrim(model.keys.changes, maxlen=1)

        with pytest.raises(StoreUnavailable, match="too much meanwhile"):
            await export.rest()


# Into an empty model alone, without lessons meanwhile


async def test_a_model_that_is_not_empty_is_refused(model: Model, other: Model) -> None:
    await teach(model)
    content = await export_model(model)
    await change(other, "m9", entry("ham", TOKENS))
    before = await stored_hashes(other)

    with pytest.raises(StoreIncompatible, match="not empty"):
        await import_model(other, content)

    assert await stored_hashes(other) == before


async def test_a_model_of_which_only_the_generation_is_left_is_empty(model: Model, other: Model) -> None:
    await teach(model)
    content = await export_model(model)
    await change(other, "m1", entry("auto-spam:0", TOKENS))
    await other.forget_automatic()

    await import_model(other, content)

    assert await stored_hashes(other) == await stored_hashes(model)


async def test_entries_of_a_former_generation_are_not_exported(model: Model, other: Model) -> None:
    await teach(model)
    await change(model, "a0", entry("auto-ham:0", TOKENS))
    await model.forget_automatic()
    await change(model, "a1", entry("auto-ham:1", TOKENS))

    await import_model(other, await export_model(model))

    assert not await other.client.exists(other.keys.ledger("a0"))
    assert await other.entry("a1")
    assert await stored(other) == await stored(model)


async def begin_import(model: Model) -> ModelImport:
    """Begin an import, and write everything but the totals."""
    begun = ModelImport(model)
    await begun.begin()
    entries = [
        archive.LedgerRecord(f"k{number}", {b"change": b"1-1", b"label": b"spam"}, 3_600_000)
        for number in range(1200)
    ]
    await begun.write([*entries, archive.CountsRecord("spam", {b"a": 1000})])
    await begun.write([archive.TotalsRecord({b"messages:spam": 1200})])
    return begun


async def test_lessons_are_refused_until_an_import_is_whole(other: Model) -> None:
    begun = await begin_import(other)

    with pytest.raises(StoreRefuses, match="lessons are refused"):
        await change(other, "m9", entry("ham", TOKENS))
    assert other.last_refusal
    assert (await other.totals()).messages == (0, 0)

    await begun.commit()
    await change(other, "m9", entry("ham", TOKENS))
    assert not other.last_refusal
    assert (await other.totals()).messages == (1, 1200)


async def test_an_import_that_fails_takes_back_what_it_has_written(other: Model) -> None:
    before = await stored_hashes(other)
    begun = await begin_import(other)

    await begun.abandon()

    assert await stored_hashes(other) == before
    await change(other, "k1", entry("ham", TOKENS))


async def test_an_import_that_was_killed_teaches_nothing_and_the_next_one_begins_anew(
    model: Model, other: Model
) -> None:
    """It looks at no other key of Redis for that."""
    await teach(model)
    content = await export_model(model)
    await begin_import(other)
    with pytest.raises(StoreRefuses, match="repeat one that was killed"):
        await change(other, "m9", entry("ham", TOKENS))
    await other.client.config_resetstat()

    await import_model(other, content)

    statistics: Any = await other.client.info("commandstats")
    assert "cmdstat_scan" not in statistics
    assert await stored_hashes(other) == await stored_hashes(model)
    await change(other, "k1", entry("ham", TOKENS))


async def test_an_import_goes_on_after_a_lost_connection(
    other: Model, shared_redis: RedisServer, tmp_path: Path
) -> None:
    steps, commit = [Fate.LOSE_REQUEST, Fate.LOSE_REPLY], [Fate.LOSE_REPLY]
    await other.client.script_load(lua_script("commit_import.lua"))

    async def lose_some(request: bytes) -> Fate:
        fates = steps if b"EXEC" in request else commit if b"EVALSHA" in request else []
        return fates.pop() if fates else Fate.PASS

    async with (
        Proxy(shared_redis.socket, tmp_path / "s", lose_some) as proxy,
        open_client(ConnectionOptions(proxy.url)) as client,
    ):
        begun = await begin_import(await open_model(client, "target"))
        await begun.commit()

    assert not steps
    assert not commit
    assert (await other.totals()).messages == (0, 1200)


@pytest.mark.parametrize("step", ["write", "commit", "abandon"])
async def test_of_two_imports_into_one_model_the_later_one_alone_is_there(
    model: Model, other: Model, step: str
) -> None:
    await teach(model)
    content = await export_model(model)
    begun = await begin_import(other)
    await import_model(other, content)
    steps = {"write": begun.write([]), "commit": begun.commit(), "abandon": begun.abandon()}

    with pytest.raises(StoreUnavailable, match="another import"):
        await steps.pop(step)
    for unused in steps.values():
        unused.close()

    assert await stored_hashes(other) == await stored_hashes(model)


async def test_an_import_repeated_after_a_kill_lets_lessons_into_the_models_that_are_not_there_again(
    client: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    models, content = await two_models_and_their_file(client)
    commit = ModelImport.commit

    async def be_killed_at_the_last(each: ModelImport) -> None:
        if await client.exists(models["own/2"].keys.totals):
            raise _KilledError
        await commit(each)

    async def leave_all(each: ModelImport) -> None:
        """A killed import abandons nothing."""

    with monkeypatch.context() as patch:
        patch.setattr(ModelImport, "commit", be_killed_at_the_last)
        patch.setattr(ModelImport, "abandon", leave_all)
        with pytest.raises(_KilledError):
            await import_archive(reader(content), opener(models))
    assert await client.exists(models["own/1"].keys.importing)

    with pytest.raises(StoreIncompatible, match="'own-2' is not empty"):
        await import_archive(reader(content), opener(models))

    await change(models["own/1"], "m1", entry("spam", TOKENS))
    assert (await models["own/1"].totals()).messages == (0, 1)


class _KilledError(Exception):
    """Stands for what ends an import between two steps."""


@pytest.mark.parametrize("end", [StoreRefuses("no memory"), asyncio.CancelledError()])
async def test_the_error_of_an_import_says_which_models_are_there(
    client: Redis, monkeypatch: pytest.MonkeyPatch, end: BaseException
) -> None:
    names = [f"own/{number}" for number in range(14)]
    models = {name: await open_model(client, name.replace("/", "-")) for name in names}
    source = await open_model(client, "source")
    await change(source, "m1", entry("spam", TOKENS))
    content = await models_file(dict.fromkeys(models, source))
    commit = ModelImport.commit

    async def fail_in_the_middle(each: ModelImport) -> None:
        if await client.exists(models["own/12"].keys.totals):
            raise end
        await commit(each)

    monkeypatch.setattr(ModelImport, "commit", fail_in_the_middle)
    with pytest.raises(StoreUnavailable) as raised:
        await import_archive(reader(content), opener(models))

    assert isinstance(raised.value, StoreRefuses) is isinstance(end, StoreRefuses)
    done = ", ".join(models[name].keys.log_name for name in names[-2:])
    assert f"Imported as a whole: {done}. " in str(raised.value)
    assert [bool(await client.exists(each.keys.totals)) for each in models.values()] == [False] * 12 + [True] * 2
    assert not await client.exists(*(each.keys.importing for each in models.values()))


async def two_models_and_their_file(client: Redis) -> tuple[dict[str, Model], bytes]:
    """Two empty own models by their names, and a file in which each has one lesson."""
    models = {name: await open_model(client, name.replace("/", "-")) for name in ("own/1", "own/2")}
    source = await open_model(client, "source")
    await change(source, "m1", entry("spam", TOKENS))
    return models, await models_file(dict.fromkeys(models, source))


async def models_file(sources: Mapping[str, Model]) -> bytes:
    """A file of several models, by their names in it."""
    stream = io.BytesIO()
    for following, (name, source) in zip(reversed(range(len(sources))), sources.items(), strict=True):
        snapshot = ModelSnapshot(source)
        writer = archive.ArchiveWriter(stream, await snapshot.header(name, following))
        async for record in snapshot.records():
            writer.write(record)
        writer.finish()
    return stream.getvalue()


def reader(content: bytes) -> archive.ArchiveReader:
    return archive.ArchiveReader(io.BytesIO(content), "FILE", current_signature())


def opener(models: Mapping[str, Model]) -> Callable[[str], Awaitable[Model]]:
    async def open_target(name: str) -> Model:
        return models[name]

    return open_target


async def test_a_file_of_several_models_is_imported_as_a_whole_or_not_at_all(client: Redis) -> None:
    sources = [await open_model(client, f"source-{number}") for number in range(3)]
    targets = {f"own/{number}": await open_model(client, f"target-{number}") for number in range(3)}
    for number, source in enumerate(sources):
        await change(source, "m1", entry("spam", TOKENS, 1000 + number))
    content = await models_file(dict(zip(targets, sources, strict=True)))
    open_target = opener(targets)

    empty = [await stored_hashes(target) for target in targets.values()]
    inside = lines_of(content)
    ends = [number for number, line in enumerate(inside, start=1) if line.startswith(b'{"lines"')]
    for cut in (len(content) // 2, len(content) - 9):
        with pytest.raises(InputError):
            await import_archive(reader(content[:cut]), open_target)
    for end in ends[:2]:  # cut between two models
        with pytest.raises(InputError, match="cut"):
            await import_archive(reader(gzip.compress(b"".join(inside[:end]))), open_target)
    with pytest.raises(InputError, match="damaged"):  # a model is left out
        await import_archive(reader(gzip.compress(b"".join(inside[: ends[0]] + inside[ends[1] :]))), open_target)
    assert [await stored_hashes(target) for target in targets.values()] == empty

    await import_archive(reader(content), open_target)

    for source, target in zip(sources, targets.values(), strict=True):
        assert await stored_hashes(target) == await stored_hashes(source)


# Followers


async def test_a_follower_equals_redis_after_an_import(model: Model, other: Model) -> None:
    await teach(model)
    content = await export_model(model)
    async with running(FollowedCounts(other)) as followed:
        await import_model(other, content)
        # An entry that came with the import may be what a repeated label waits for.
        for message in ("m1", "m2", "m4"):
            ledger_entry = await other.entry(message)
            assert ledger_entry is not None
            await followed.wait_until_applied(ledger_entry.change)
        await followed.wait_until_applied(await other.last_change())

        assert await equals_redis(followed, other, [*MANY, *TOKENS, *SUM_NAMES])
        await followed.wait_until_applied(await change(other, "m2", None) or b"")
        assert await equals_redis(followed, other, [*MANY, *TOKENS, *SUM_NAMES])


# All or nothing


def lines_of(content: bytes) -> list[bytes]:
    return gzip.decompress(content).splitlines(keepends=True)


def same_inside(one: bytes, other: bytes) -> bool:
    with contextlib.suppress(OSError, EOFError, zlib.error):
        return gzip.decompress(one) == gzip.decompress(other)
    return False


async def import_error(other: Model, content: bytes) -> NbstreamError:
    """The error of an import that changes no key and no field of the target."""
    before = await stored_hashes(other)
    with pytest.raises(NbstreamError) as raised:
        await import_model(other, content)
    assert await stored_hashes(other) == before
    return raised.value


async def test_a_file_cut_anywhere_is_refused_and_changes_nothing(model: Model, other: Model) -> None:
    await teach(model)
    content = await export_model(model)

    for length in [0, 1, 9, 10, 11, 100, *range(200, len(content), 4000), len(content) - 8, len(content) - 1]:
        assert isinstance(await import_error(other, content[:length]), InputError), length
    archive_lines = lines_of(content)
    for count in range(len(archive_lines)):  # cut, and compressed again
        assert isinstance(await import_error(other, gzip.compress(b"".join(archive_lines[:count]))), InputError)


async def test_a_file_with_a_bit_flipped_anywhere_is_refused_and_changes_nothing(
    model: Model, other: Model
) -> None:
    await change(model, "m1", entry("spam", TOKENS))
    content = await export_model(model)
    generator = random.Random(7)

    for _ in range(60):  # the decompressed content, as if the compression had no checksum of its own
        payload = bytearray(gzip.decompress(content))
        payload[generator.randrange(len(payload))] ^= 1 << generator.randrange(8)
        await import_error(other, gzip.compress(bytes(payload)))
    for index in range(10, len(content), 3):  # after gzip's header, which contains nothing that matters
        flipped = bytearray(content)
        flipped[index] ^= 1 << generator.randrange(8)
        if not same_inside(bytes(flipped), content):  # some bits between gzip's blocks mean nothing
            await import_error(other, bytes(flipped))


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
async def test_a_file_that_is_not_an_archive_is_refused(other: Model, content: bytes) -> None:
    assert (
        "no model that nbstream has exported" in str(await import_error(other, content)) or content[:1] == b"\x1f"
    )


def archive_of(*records: bytes, header: archive.ArchiveHeader | None = None) -> bytes:
    """An archive of these lines with the right checksum."""
    stream = io.BytesIO()
    writer = archive.ArchiveWriter(stream, header or archive.ArchiveHeader(current_signature()))
    for record in records:
        writer._gzip.write(record)
        writer._digest.update(record)
        writer._lines += 1
    writer.finish()
    return stream.getvalue()


@pytest.mark.parametrize(
    "line",
    [
        b'{"counts":"Eggs","of":{"a":1}}\n',
        b'{"counts":"ham","of":{"a":1.5}}\n',
        b'{"counts":"ham","of":{"a":9007199254740992}}\n',
        b'{"counts":"ham","of":["a"]}\n',
        b'{"counts":"ham","of":{"a\\nb":1}}\n',
        b'{"counts":"ham","of":{"":1}}\n',
        b'{"counts":"ham","of":{"a\\u001b[2Jb":1}}\n',
        b'{"counts":"ham","of":{"' + b"a" * 65 + b'":1}}\n',
        b'{"message":"a:b","milliseconds":1,"fields":{}}\n',
        b'{"message":"a","milliseconds":1,"fields":{"tokens":"%"}}\n',
        b'{"message":"a","milliseconds":1,"fields":{"label":"ham"}}\n',
        b'{"message":"a","milliseconds":1,"fields":{"version":"1","label":"Eggs","weight":"1","tokens":"eJwDAAAAAAE=",'
        b'"sums":"","learned_at":"1","source":"","actor":"","score":"1","change":"1-1"}}\n',
        b'{"totals":null}\n',
        b'{"totals":{"messages:ham":-1}}\n',
        b'{"totals":{"messages:Eggs":1}}\n',
        b"[]\n",
        b'["sha256"]\n',
    ],
)
async def test_a_line_that_is_not_a_record_is_refused_and_changes_nothing(other: Model, line: bytes) -> None:
    assert await import_error(other, archive_of(b'{"counts":"ham","of":{"a":1}}\n', line))


async def test_a_line_that_no_export_has_written_is_refused_before_it_takes_memory(other: Model) -> None:
    content = archive_of(b'{"counts":"ham","of":{' + b'"a":1,' * (8 << 20) + b'"b":1}}\n')
    with little_memory():
        assert "line 2 is longer than any" in str(await import_error(other, content))


async def test_no_export_writes_a_line_that_is_refused(other: Model) -> None:
    stream = io.BytesIO()
    writer = archive.ArchiveWriter(stream, archive.ArchiveHeader(current_signature()))
    longest = {b"%064d" % number: 2**53 - 1 for number in range(3 * MAX_BATCH_COUNTS)}
    writer.write(archive.CountsRecord("ham", longest))
    with pytest.raises(StoreIncompatible, match="longer than any"):
        writer.write(archive.CountsRecord("ham", longest | {b"a%d" % number: 1 for number in range(100_000)}))
    writer.finish()

    await import_model(other, stream.getvalue())


async def test_more_classes_than_a_model_can_have_are_refused(other: Model) -> None:
    counts = [b'{"counts":"kind-%d","of":{"a":1}}\n' % number for number in range(65)]
    totals = b'{"totals":{%s}}\n' % b",".join(b'"messages:kind-%d":1' % number for number in range(150))
    for lines in (counts, [totals]):
        assert "more classes than a model has" in str(await import_error(other, archive_of(*lines)))


def message_line(milliseconds: str = "1000", **changed: str) -> bytes:
    fields = {
        name: base64.b64encode(value).decode() if isinstance(value, bytes) else value
        for name, value in entry("ham", [b"a"]).pack().items()
    }
    line = json.dumps({"message": "m", "milliseconds": 0, "fields": {**fields, "change": "1-1", **changed}})
    return line.replace('"milliseconds": 0', f'"milliseconds": {milliseconds}').encode() + b"\n"


@pytest.mark.parametrize(
    "line",
    [
        message_line("1e999"),
        message_line(str(10**18)),
        message_line(weight=str(2**53)),
        message_line(weight="3001"),
        message_line(weight="-1"),
        message_line(sums="=x 5_0"),
        message_line(sums="=score+0 -1"),
        message_line(sums="=score+0 3031"),
        message_line(learned_at="1e999"),
        message_line(score="nan"),
        message_line(tokens=base64.b64encode(compress(b"a\x1b[2Jb")).decode()),
        message_line(tokens=base64.b64encode(compress(b"a\n\nb")).decode()),
        message_line(tokens=base64.b64encode(compress(b"a" * 65)).decode()),
        message_line(learned_at="nan"),
        message_line(sums=f"=x {2**53}"),
        message_line(of_another="program"),
        message_line(sums="=x 1 =x 1"),
        message_line(tokens=base64.b64encode(compress(b"a\nb\na")).decode()),
        message_line(tokens=base64.b64encode(compress(bytes(65 << 20))).decode()),
    ],
)
async def test_an_entry_that_no_lesson_can_have_written_is_refused(other: Model, line: bytes) -> None:
    assert await import_error(other, archive_of(line))


NOW = 1_700_000_000.0
DAY = 86_400.0


async def test_a_model_of_another_format_is_refused_with_both_named(other: Model) -> None:
    stream = io.BytesIO()
    archive.ArchiveWriter(stream, archive.ArchiveHeader({**current_signature(), "format": "999"})).finish()

    error = await import_error(other, stream.getvalue())

    assert isinstance(error, StoreIncompatible)
    assert "format 999, and this nbstream has format 1" in str(error)
