"""The keys in Redis that a backup has as they are; counts and ledgers it has as archives of their models.

Rules: a key that is in no pattern here is in no backup, and no restore writes to it. Each key is read in one step,
the history in steps. To write a record twice changes nothing.
"""

from __future__ import annotations

import fnmatch
import json
import math
import re
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from nbstream.store.model.scan import scan_keys
from nbstream.store.redis_errors import store_errors

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from redis.asyncio import Redis

    from nbstream.store.model.keys import ModelKeys

HISTORY = "history"
"""The stream that is copied of each model."""

CORRESPONDENTS = "correspondents"
"""Another stream of the common model that is copied."""

COPIED_KEYS = ("schema", "users:digest-off", "lists", "lists:*", "user-labelled:*")
"""The other keys of the common model that are copied, as patterns of their names."""

_COPIED = re.compile("|".join(map(fnmatch.translate, COPIED_KEYS)))
_SCHEMA, _SCHEMA_FIELDS = "schema", ()  # the signature is that of the archive
_COMMANDS = {"string": "SET", "hash": "HSET", "zset": "ZADD", "stream": "XADD"}
_SIZES = {"string": 1, "hash": 2, "zset": 2}
_STREAMS = {HISTORY, CORRESPONDENTS}
_MAX_MILLISECONDS = 1 << 53
_STREAM_ID = re.compile(r"[1-9][0-9]{0,18}-[0-9]{1,19}")
_BATCH = 500


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """One key, or some entries of a stream.

    ``part`` is the model that the key belongs to, by its name in the backup, and ``name`` what follows the prefix
    of the model's keys. ``items`` are the arguments of the commands that write it: the value of a string, field
    and value of a hash, score and member of a sorted set, id, fields and values of an entry of a stream.
    ``milliseconds`` is the lifetime that is left, -1 for none.
    """

    part: str
    name: str
    kind: str
    milliseconds: int
    items: Sequence[Sequence[str]]

    def pack(self) -> bytes:
        """Return the record as one line."""
        return json.dumps(asdict(self), ensure_ascii=False).encode("utf-8", "surrogateescape") + b"\n"

    @classmethod
    def unpack(cls, line: bytes) -> KeyRecord:
        """Return the record of a line. Raises ``ValueError`` for what no backup has."""
        try:
            record = cls(**json.loads(line.decode("utf-8", "surrogateescape")))
            if record._is_valid():
                return record
        except (TypeError, AttributeError, IndexError, RecursionError) as error:
            raise ValueError("no record of a key") from error
        raise ValueError("no record of a key")

    def _is_valid(self) -> bool:
        texts = (self.part, self.name, self.kind, *(text for item in self.items for text in item))
        if not all(isinstance(text, str) for text in texts) or type(self.milliseconds) is not int:
            return False
        if not -1 <= self.milliseconds < _MAX_MILLISECONDS:
            return False
        if self.name == _SCHEMA and (self.kind != "hash" or any(i[0] not in _SCHEMA_FIELDS for i in self.items)):
            return False
        if self.kind == "zset" and not all(math.isfinite(float(item[0])) for item in self.items):
            return False
        if self.name in _STREAMS:
            has_pairs = all(
                _STREAM_ID.fullmatch(item[0]) and len(item) > 1 and len(item) % 2 for item in self.items
            )
            return self.kind == "stream" and has_pairs
        return bool(_COPIED.fullmatch(self.name)) and {_SIZES.get(self.kind)} == set(map(len, self.items))


async def read_keys(client: Redis, keys: ModelKeys, part: str) -> AsyncIterator[KeyRecord]:
    """Yield the keys of the model that are copied, without streams. Raises ``StoreUnavailable``."""
    prefix = keys.pattern.removesuffix("*")
    with store_errors():
        async for found in scan_keys(client, keys.pattern):
            names = (key.decode("utf-8", "replace").removeprefix(prefix) for key in found)
            for name in filter(_COPIED.fullmatch, names):
                kind: Any = await client.type(prefix + name)
                milliseconds: Any = await client.pttl(prefix + name)
                if items := await _read_items(client, prefix + name, name, kind):  # else it has just expired
                    texts = [[_text(value) for value in item] for item in items]
                    yield KeyRecord(part, name, kind.decode(), milliseconds, texts)


async def _read_items(client: Redis, key: str, name: str, kind: bytes) -> list[tuple[Any, ...]]:
    items: Any
    if kind == b"string":
        items = [(await client.get(key),)]
    elif kind == b"hash":
        fields: Any = await client.hgetall(key)
        items = [item for item in fields.items() if name != _SCHEMA or item[0].decode() in _SCHEMA_FIELDS]
    else:
        members: Any = await client.zrange(key, 0, -1, withscores=True)
        items = [(score, member) for member, score in members]
    return [item for item in items if item != (None,)]


async def read_stream(
    client: Redis, keys: ModelKeys, part: str, name: str, last: bytes = b"+"
) -> AsyncIterator[KeyRecord]:
    """Yield a stream of the model up to the entry ``last``. Raises ``StoreUnavailable``."""
    key, start = keys.pattern.removesuffix("*") + name, b"-"
    while True:
        with store_errors():
            entries: Any = await client.xrange(key, start, last, count=_BATCH)
        if not entries:
            return
        items = [[_text(id_), *(_text(t) for pair in fields.items() for t in pair)] for id_, fields in entries]
        yield KeyRecord(part, name, "stream", -1, items)
        start = b"(" + entries[-1][0]


def _text(value: bytes | float) -> str:
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else repr(value)


async def write_record(client: Redis, keys: ModelKeys, record: KeyRecord) -> None:
    """Put a record back; to do it twice changes nothing. Raises ``StoreUnavailable``."""
    key = keys.pattern.removesuffix("*") + record.name
    with store_errors():
        newest: Any = await client.xrevrange(key, count=1) if record.name in _STREAMS else []
        async with client.pipeline(transaction=True) as pipe:
            for item in record.items:
                if not newest or _entry_order(item[0]) > _entry_order(newest[0][0].decode()):
                    values = [text.encode("utf-8", "surrogateescape") for text in item]
                    pipe.execute_command(_COMMANDS[record.kind], key, *values)
            if record.milliseconds >= 0:
                pipe.pexpire(key, max(1, record.milliseconds))
            await pipe.execute()


def _entry_order(entry_id: str) -> tuple[int, ...]:
    return tuple(map(int, entry_id.split("-")))
