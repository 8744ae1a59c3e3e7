"""The checkpoint: a file beside the state with the counts of a model, from which a start loads most of them.

Rules: Redis is the truth. What is loaded from a checkpoint holds only if Redis has both changes between which it
was written. It is complete once the changes after the first of them are applied: a change carries resulting
counts, and does no harm where the checkpoint has already seen it. A file that is cut, damaged, of another model
or of another version stands for none. It is written by a thread, beside checks and lessons, and takes the place
of the former one when it is whole and on the disk. It is for its owner alone (0600): it has what Redis has.

It begins with what a check needs beside the counts, so that mail is scored before Redis answers. Until Redis has
confirmed the counts, they are at ``UNCONFIRMED``, which no Redis has. The form of 0.11.0 is read too: it lacks
that beginning.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import secrets
import struct
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, TypeAlias

import numpy as np

from nbstream.bayes.counts import CLASSES, NO_CHANGE, ChangePosition, CountsChange, Totals
from nbstream.bayes.half_life import HalfLife
from nbstream.durable_files import make_folder, sync_folder
from nbstream.policy.fair_sample import FairSample
from nbstream.policy.first_scores import FirstScores
from nbstream.store.mirror.shared_counts import counts_identity
from nbstream.store.model.signature import current_signature
from nbstream.tokens.token_list import TokenList

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from nbstream.bayes.counts import Counts
    from nbstream.engine.table import Table
    from nbstream.store.model.model import Model

_log = logging.getLogger(__name__)

CHECKPOINT_FOLDER = "checkpoints"
"""The folder in ``state_dir``."""

UNCONFIRMED = ChangePosition((1 << 64) - 1, (1 << 64) - 1, 1)
"""The stored position of counts that came from a checkpoint, until Redis has confirmed them."""

_MAGIC = b"nbstream checkpoint 2\n"
_MAGIC_OF_0_11 = b"nbstream checkpoint 1\n"
_CONTEXT = struct.Struct("<I")  # its length
_HEAD = struct.Struct("<2Q3Q5qQ")  # identity, first change, totals, about how many names follow
_PIECE = struct.Struct("<II")  # names, and the bytes that they take; none behind the last piece
_END = struct.Struct("<3Q")  # last change; behind it the digest of all before
_DIGEST_BYTES = 32
_DRAFT_SECONDS = 3600.0  # nobody writes for that long
_ROWS_PER_PIECE = 1 << 12  # a table reserves memory for twice as many at once
_MOST_PIECE_BYTES = 1 << 28  # of one piece or of the context: what is larger was not written by this module
_ROW_BYTES = 8 * len(CLASSES)


@dataclass(frozen=True, slots=True)
class CheckpointContext:
    """What a check needs beside the counts of a checkpoint.

    ``signature`` has the name of the model too, ``totals`` is the key of its totals. ``sample`` is its fair
    sample, and ``first_scores`` are those of ham and those of spam, as they are stored. ``at`` is when the writing
    began, in seconds since the epoch.
    """

    signature: Mapping[str, str]
    totals: str
    half_life: HalfLife
    sample: str
    first_scores: tuple[str, ...]
    at: float

    @classmethod
    def of(cls, model: Model, half_life: HalfLife, first_scores: FirstScores) -> CheckpointContext:
        """Return the context of the counts of ``model`` at this moment."""
        packed = tuple(b"\n".join(first_scores[label].packed()).decode() for label in CLASSES)
        return cls(
            signature_of(model), model.keys.totals, half_life, first_scores.sample.pack(), packed, time.time()
        )

    def pack(self) -> bytes:
        """Return the stored form."""
        half_life = self.half_life.days, self.half_life.since
        fields = [self.signature, self.totals, half_life, self.sample, self.first_scores, self.at]
        return json.dumps(fields).encode()

    @classmethod
    def unpack(cls, packed: bytes) -> CheckpointContext:
        """Return what ``pack`` packed; raises ``ValueError`` or ``TypeError`` for what no program wrote."""
        signature, totals, half_life, sample, first_scores, at = json.loads(packed)
        return cls(signature, totals, HalfLife(*half_life), sample, tuple(first_scores), at)

    @property
    def counts_identity(self) -> tuple[int, int]:
        """What processes that share the counts call them."""
        return counts_identity(self.totals, self.half_life)

    def make_first_scores(self) -> FirstScores:
        """Return the first scores; that takes about a second for the most that a model has."""
        made = FirstScores(FairSample.unpack(self.sample))
        for label, of_class in zip(CLASSES, self.first_scores, strict=True):
            for score in of_class.encode().splitlines():
                made[label].add(score)
        return made


def signature_of(model: Model) -> Mapping[str, str]:
    """Return the name of the model, and the signature that it needs for this program to use it."""
    return {"model": model.keys.model, **current_signature(model.key_fingerprint)}


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The counts that a checkpoint gave, at ``UNCONFIRMED``; ``identity`` says whose they are.

    They have all changes up to ``first``, and some of those after it up to ``last``. ``context`` is None where
    0.11.0 wrote it.
    """

    identity: tuple[int, int]
    context: CheckpointContext | None
    counts: Counts
    first: ChangePosition
    last: ChangePosition


MakeCounts: TypeAlias = "Callable[[tuple[int, int], CheckpointContext | None, int], Counts | None]"
"""Returns empty counts for what a checkpoint has: its identity, its context, and about how many names it has.

None where that is not wanted.
"""


class CheckpointFile:
    """The checkpoint of one model in the file ``path``."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.identity: tuple[int, int] | None = None
        """Whose counts the file has; while that is not known, the file is neither read nor written."""
        self.position = NO_CHANGE
        """The change up to which the file is whole, as far as it was read or written here."""

    @property
    def exists(self) -> bool:
        """Whether there is a file."""
        return self._path.exists()

    def write(self, table: Table, context: CheckpointContext) -> None:
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
                for piece in _pieces(table, self.identity, context):
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

    def read(self, make_counts: MakeCounts) -> Checkpoint | None:
        """Return the counts in the file; None where there is none, it is damaged, or is not wanted.

        The errors of ``make_counts`` are raised.
        """
        try:
            with self._path.open("rb") as file:
                found = _read(file, make_counts)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, RecursionError, struct.error) as error:
            _log.warning("the checkpoint is not used, and all counts are read from Redis: %s", error)
            return None
        # One without a context is written anew as soon as possible.
        self.position = found.first if found and found.context else NO_CHANGE
        return found


def remove_checkpoints(state_dir: Path) -> None:
    """Remove the checkpoints of all models in ``state_dir``, as far as they can be removed."""
    for path in (state_dir / CHECKPOINT_FOLDER).glob("*"):
        with suppress(OSError):
            path.unlink()


def _pieces(table: Table, identity: tuple[int, int], context: CheckpointContext) -> Iterator[bytes]:
    """Yield the file piece by piece, without the digest at its end."""
    before = table.describe()
    packed = context.pack()
    yield _MAGIC + _CONTEXT.pack(len(packed)) + packed
    yield _HEAD.pack(*identity, *before.position[:3], *before.totals, before.names)
    first = 0
    while first < table.describe().rows_used:
        names, rows = table.read_some(first, _ROWS_PER_PIECE)
        first += _ROWS_PER_PIECE
        if len(rows):
            yield _PIECE.pack(len(rows), len(names)) + names
            yield rows.tobytes()
    yield _PIECE.pack(0, 0) + _END.pack(*table.describe().position[:3])


def _read(file: BinaryIO, make_counts: MakeCounts) -> Checkpoint | None:
    """Return what the file has; raises what ``read`` catches for what nobody wrote."""
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)

    def take(size: int) -> bytes:
        if size > _MOST_PIECE_BYTES:
            raise ValueError("it has a piece that is too large")
        content = file.read(size)
        if len(content) != size:
            raise ValueError("it is cut")
        digest.update(content)
        return content

    context = _read_context(take)
    numbers = _HEAD.unpack(take(_HEAD.size))
    first, totals = ChangePosition(*numbers[2:5]), Totals(numbers[5:7], numbers[7:9], numbers[9])
    size = os.fstat(file.fileno()).st_size
    counts = make_counts(numbers[:2], context, min(numbers[10], size // _ROW_BYTES))
    if counts is None:
        return None
    while True:
        count, length = _PIECE.unpack(take(_PIECE.size))
        if not count:
            break
        if count > _ROWS_PER_PIECE:
            raise ValueError("it has a piece that is too large")
        names = TokenList.from_joined(take(length), count)
        counts.set_counts(names, np.frombuffer(take(count * _ROW_BYTES), np.int64).reshape(-1, len(CLASSES)))
    last = ChangePosition(*_END.unpack(take(_END.size)))
    if file.read(_DIGEST_BYTES + 1) != digest.digest():
        raise ValueError("it is damaged")
    counts.apply(CountsChange((), (), totals, first, UNCONFIRMED))
    return Checkpoint(numbers[:2], context, counts, first, last)


def _read_context(take: Callable[[int], bytes]) -> CheckpointContext | None:
    magic = take(len(_MAGIC))
    if magic == _MAGIC:
        return CheckpointContext.unpack(take(*_CONTEXT.unpack(take(_CONTEXT.size))))
    if magic != _MAGIC_OF_0_11:
        raise ValueError("another version wrote it")
    return None
