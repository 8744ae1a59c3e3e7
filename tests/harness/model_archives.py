"""Models that tests export, import and compare."""

from __future__ import annotations

import io
from typing import Any

from redis.asyncio import Redis

from nbstream.store.model.model import Model
from nbstream.store.model.signature import current_signature
from nbstream.store.transfer import archive
from nbstream.store.transfer.model_import import import_archive
from nbstream.store.transfer.model_snapshot import ModelSnapshot


async def open_model(client: Redis, name: str) -> Model:
    model = Model(client, name, ledger_seconds=3600)
    await model.open()
    return model


async def export_model(model: Model) -> bytes:
    """The content of an archive of the model."""
    stream, snapshot = io.BytesIO(), ModelSnapshot(model)
    writer = archive.ArchiveWriter(stream, await snapshot.header())
    async for record in snapshot.records():
        writer.write(record)
    writer.finish()
    return stream.getvalue()


async def import_model(model: Model, content: bytes) -> None:
    """Import an archive of one model into this one."""

    async def open_model(_: str) -> Model:
        return model

    await import_archive(archive.ArchiveReader(io.BytesIO(content), "FILE", current_signature()), open_model)


async def stored_hashes(model: Model) -> dict[bytes, Any]:
    """Each key of a model with all of its fields, except changes and history."""
    start = len(model.keys.ledger("")) - len("ledger:")
    hashes = {}
    for key in [key async for key in model.client.scan_iter(match=model.keys.pattern)]:
        if not key.endswith((b":changes", b":history", b":sequence")):
            hashes[key[start:]] = await model.client.hgetall(key)
    return hashes
