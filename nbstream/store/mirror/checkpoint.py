"""The checkpoint: a file beside the state with the counts of a model, from which a start loads most of them.

Rules: Redis is the truth. What is loaded from a checkpoint holds only if Redis has both changes between which it
was written. It is complete once the changes after the first of them are applied: a change carries resulting
counts, and does no harm where the checkpoint has already seen it. A file that is cut, damaged, of another model
or of another version stands for none. It is written by a thread, beside checks and lessons, and takes the place
of the former one when it is whole and on the disk. It is for its owner alone (0600): it has what Redis has.
"""

from __future__ import annotations

import hashlib
import logging
import os
import secrets
import struct
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from nbstream.bayes.counts import CLASSES, NO_CHANGE, ChangePosition, CountsChange, Totals
from nbstream.durable_files import make_folder, sync_folder
from nbstream.tokens.token_list import TokenList

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from nbstream.bayes.counts import Counts
    from nbstream.engine.table import Table

_log = logging.getLogger(__name__)

CHECKPOINT_FOLDER = "checkpoints"
"""The folder in ``state_dir``."""

_MAGIC = b"nbstream checkpoint 1\n"
_HEAD = struct.Struct("<2Q3Q5qQ")  # identity, first change, totals, about how many names follow
_PIECE = struct.Struct("<II")  # names, and the bytes that they take; none behind the last piece
_END = struct.Struct("<3Q")  # last change; behind it the digest of all before
_DIGEST_BYTES = 32
_DRAFT_SECONDS = 3600.0  # nobody writes for that long
_ROWS_PER_PIECE = 1 << 12  # a table reserves memory for twice as many at once
_MOST_PIECE_BYTES = 1 << 28  # of one piece: what is larger was not written by this module
_ROW_BYTES = 8 * len(CLASSES)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The counts that a checkpoint gave.

    They have all changes up to ``first``, and some of those after it up to ``last``.
    """

    counts: Counts
    first: ChangePosition
    last: ChangePosition


class CheckpointFile:
    """The checkpoint of one model in the file ``path``."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.identity: tuple[int, int] | None = None
        """Whose counts the file has; while that is not known, the file is neither read nor written."""
        self.position = NO_CHANGE
        """The change up to which the file is whole, as far as it was read or written here."""

    def write(self, table: Table) -> None:
        """Write the counts of ``table``, which may change meanwhile.

        Writes nothing where the table has no change yet, or nobody knows whose it is. Raises ``OSError`` and
        ``TableFailure``.
        """
        first = table.describe()
        if not first.position[2] or self.identity is None:
            return
        make_folder(self._path.parent)
        self._remove_drafts()
        new = self._path.with_suffix(f".{secrets.token_hex(8)}")
        try:
            descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
                for piece in _pieces(table, self.identity):
                    digest.update(piece)
                    file.write(piece)
                file.write(digest.digest())
                file.flush()
                os.fsync(file.fileno())
            new.replace(self._path)
        except BaseException:
            with suppress(OSError):
                new.unlink()
            raise
        sync_folder(self._path.parent)
        self.position = ChangePosition(*first.position[:3])

    def _remove_drafts(self) -> None:
        """Remove what writers that were killed have left."""
        for draft in self._path.parent.glob(f"{self._path.name}.*"):
            with suppress(OSError):
                if time.time() - draft.stat().st_mtime > _DRAFT_SECONDS:
                    draft.unlink()

    def read(self, make_counts: Callable[[int], Counts]) -> Checkpoint | None:
        """Return the counts in the file; None where there is none of this ``identity``, or it is damaged.

        ``make_counts`` returns empty counts with room for so many names, and its errors are raised.
        """
        if self.identity is None:
            return None
        try:
            with self._path.open("rb") as file:
                found = _read(file, self.identity, make_counts)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, struct.error) as error:
            _log.warning("the checkpoint is not used, and all counts are read from Redis: %s", error)
            return None
        self.position = found.first if found else NO_CHANGE
        return found


def remove_checkpoints(state_dir: Path) -> None:
    """Remove the checkpoints of all models in ``state_dir``, as far as they can be removed."""
    for path in (state_dir / CHECKPOINT_FOLDER).glob("*"):
        with suppress(OSError):
            path.unlink()


def _pieces(table: Table, identity: tuple[int, int]) -> Iterator[bytes]:
    """Yield the file piece by piece, without the digest at its end."""
    before = table.describe()
    yield _MAGIC + _HEAD.pack(*identity, *before.position[:3], *before.totals, before.names)
    first = 0
    while first < table.describe().rows_used:
        names, rows = table.read_some(first, _ROWS_PER_PIECE)
        first += _ROWS_PER_PIECE
        if len(rows):
            yield _PIECE.pack(len(rows), len(names)) + names
            yield rows.tobytes()
    yield _PIECE.pack(0, 0) + _END.pack(*table.describe().position[:3])


def _read(file: BinaryIO, identity: tuple[int, int], make_counts: Callable[[int], Counts]) -> Checkpoint | None:
    """Return what the file has; raises ``ValueError``, ``OSError`` and ``struct.error`` for what nobody wrote."""
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)

    def take(size: int) -> bytes:
        content = file.read(size)
        if len(content) != size:
            raise ValueError("it is cut")
        digest.update(content)
        return content

    if take(len(_MAGIC)) != _MAGIC:
        raise ValueError("another version wrote it")
    numbers = _HEAD.unpack(take(_HEAD.size))
    if numbers[:2] != identity:
        return None
    first, totals = ChangePosition(*numbers[2:5]), Totals(numbers[5:7], numbers[7:9], numbers[9])
    size = os.fstat(file.fileno()).st_size
    counts = make_counts(min(numbers[10], size // _ROW_BYTES))
    while True:
        count, length = _PIECE.unpack(take(_PIECE.size))
        if not count:
            break
        if length > _MOST_PIECE_BYTES or count > _ROWS_PER_PIECE:
            raise ValueError("it has a piece that is too large")
        names = TokenList.from_joined(take(length), count)
        counts.set_counts(names, np.frombuffer(take(count * _ROW_BYTES), np.int64).reshape(-1, len(CLASSES)))
    last = ChangePosition(*_END.unpack(take(_END.size)))
    if file.read(_DIGEST_BYTES + 1) != digest.digest():
        raise ValueError("it is damaged")
    counts.apply(CountsChange((), (), totals, first, first))
    return Checkpoint(counts, first, last)
