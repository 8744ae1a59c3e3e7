"""Models that tests export, import and compare."""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from typing import Any

from redis.asyncio import Redis

from nbstream.store.model.model import Model
from nbstream.store.model.signature import current_signature
from nbstream.store.transfer import archive
from nbstream.store.transfer.model_import import ModelImport, finish_import
from nbstream.store.transfer.model_snapshot import ModelSnapshot


async def open_model(client: Redis, name: str) -> Model:
    model = Model(client, name, ledger_seconds=3600)
    await model.open()
    return model


async def export_model(model: Model, clock: Callable[[], float] = time.time) -> bytes:
    """The content of an archive of the model."""
    stream, snapshot = io.BytesIO(), ModelSnapshot(model, clock)
    writer = archive.ArchiveWriter(stream, await snapshot.header())
    async for record in snapshot.records():
        writer.write(record)
    writer.finish()
    return stream.getvalue()


async def stage_import(model: Model, content: bytes, *, merge: bool = False) -> None:
    """Import an archive up to the mark, after which its records are part of the model."""
    reader = archive.ArchiveReader(io.BytesIO(content), "FILE", current_signature())
    model_import = ModelImport(model, merge=merge)
    try:
        await model_import.begin()
        for record in reader:
            await model_import.stage(record)
        await model_import.mark_ready()
    finally:
        await model_import.abandon()


async def import_model(model: Model, content: bytes, *, merge: bool = False) -> int:
    """Import an archive; return of how many messages the model had an entry already."""
    await stage_import(model, content, merge=merge)
    already_learned = await finish_import(model)
    assert already_learned is not None
    return already_learned


async def stored_hashes(model: Model) -> dict[bytes, Any]:
    """Each key of a model with all of its fields, except changes and history."""
    start = len(model.keys.ledger("")) - len("ledger:")
    hashes = {}
    for key in [key async for key in model.client.scan_iter(match=model.keys.pattern)]:
        if not key.endswith((b":changes", b":history", b":sequence")):
            hashes[key[start:]] = await model.client.hgetall(key)
    return hashes
