"""A backup: any file is refused with a reason, or checked; a record of a key that was read can be written again.

The first byte says whether the rest is the file itself, its uncompressed tar, the records of its keys, or its
manifest.
"""

from __future__ import annotations

import gzip
import io
import json

from nbstream.backup.container import ContainerReader, ContainerWriter
from nbstream.backup.keys import KeyRecord
from nbstream.backup.restoring import check_backup
from nbstream.backup.writing import AUTOLEARNED, COMMON, FORMAT, KEYS, MODELS
from nbstream.config import Settings
from nbstream.errors import InputError, StoreIncompatible
from nbstream.store.model.signature import current_signature
from nbstream.store.transfer.archive import ArchiveWriter, TotalsRecord, new_header
from tests.fuzz.target import Choices, FuzzTarget

_SETTINGS = Settings()


def _check(data: bytes) -> None:
    choices = Choices(data)
    kind = choices.number(4)
    contents = (choices.rest, gzip.compress(choices.rest, 1), _backup(keys=choices.rest), _backup(choices.rest))
    try:
        check_backup(_SETTINGS, io.BytesIO(contents[kind]), "FILE")
    except (InputError, StoreIncompatible) as error:
        problem = str(error)
    else:
        problem = "FILE"
        for member in ContainerReader(io.BytesIO(contents[kind]), "FILE"):
            if member.name == KEYS:
                for line in io.BufferedReader(member):
                    record = KeyRecord.unpack(line)
                    assert KeyRecord.unpack(record.pack()) == record
    assert problem.startswith("FILE")


def _backup(manifest: bytes = b"", keys: bytes = b"") -> bytes:
    stream, model = io.BytesIO(), io.BytesIO()
    archive = ArchiveWriter(model, new_header(current_signature(), 0))
    archive.write(TotalsRecord({}))
    archive.finish()
    writer = ContainerWriter(stream, {"format": FORMAT, "version": 1, "written": "now", "model": "m"})
    for part in (AUTOLEARNED, COMMON):
        writer.add(f"{MODELS}{part}.gz", model)
    writer.add(KEYS, io.BytesIO(keys))
    try:
        values = json.loads(manifest)
    except (ValueError, RecursionError):
        values = None
    writer.finish(values if isinstance(values, dict) else {"own_models": {}, "left_out": []})
    return stream.getvalue()


_RECORD = KeyRecord("common", "lists:of:ann", "hash", 5, [["a", "\udcff"]]).pack()
_ENTRY = KeyRecord("common", "history", "stream", -1, [["1-1", "id", "x"]]).pack()

TARGET = FuzzTarget(
    _check,
    (
        b"\0" + _backup(),
        b"\1" + gzip.decompress(_backup(keys=_RECORD)),
        b"\2" + _RECORD + _ENTRY,
        b"\2" + _RECORD.replace(b"hash", b"zset"),
        b"\2" + b"[" * 3000,
        b'\3{"own_models": {"own-000001": "ann@example.org"}, "left_out": ["x"]}',
        b'\3{"own_models": {"common": [1]}, "left_out": {}}',
    ),
    words=(
        b'"part": ',
        b'"kind": ',
        b'"items": ',
        b"null",
        b"NaN",
        b'"string"',
        b'"nan"',
        b"{}",
        b"[]",
        b'"common"',
    ),
    max_bytes=16_384,
)
