"""The records of an archive in another time base: all counts multiplied by one factor, and rounded.

Rules: an entry's weight is rounded first, and the counts hold the sum of the rounded ones, so that unlearning
stays exact; what is of no entry any more is multiplied and rounded as it is. All counts and the packed ledger are
held in memory for it, since the last line may still replace what the first one said.

Of a token that was forgotten (``model.max_tokens``) while entries hold it, no more than a rounding error is left.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from nbstream.bayes.calibration import SCORE_BINS
from nbstream.bayes.counts import CLASSES, ClassCounts, Totals
from nbstream.bayes.half_life import MAX_COUNT, grow_weight
from nbstream.errors import CountsFull
from nbstream.store.model.ledger import LedgerEntry, join_sums
from nbstream.store.model.model import totals_from_hash
from nbstream.store.transfer.archive import CountsRecord, LedgerRecord, TotalsRecord

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nbstream.bayes.half_life import HalfLife
    from nbstream.store.transfer.archive import ArchiveReader, ArchiveRecord

_TOKENS_PER_RECORD = 1000  # counts of a record


def convert_time_base(reader: ArchiveReader, half_life: HalfLife) -> Iterator[ArchiveRecord]:
    """The records of an archive as they are in that time base, the same at the moment of the export.

    As they come where it is their own; else all have been read when this returns. Raises as ``rescale_records``.
    """
    try:
        factor = half_life.conversion_factor(reader.header.half_life, reader.header.exported)
    except OverflowError as error:
        raise _counts_full_error() from error
    return iter(reader) if factor == 1 else rescale_records(reader, factor)


def rescale_records(records: Iterable[ArchiveRecord], factor: float) -> Iterator[ArchiveRecord]:
    """The same model with all counts multiplied by ``factor``; all of ``records`` are read when this returns.

    Raises what the reading of ``records`` raises, and ``CountsFull`` where counts would be too large.
    """
    counts, ledger = _read_records(records)
    for entry in filter(None, map(_unpack_entry, ledger.values())):
        counts.subtract(entry.tokens, CLASSES.index(entry.label), entry.weight, entry.sums)
    names, rest = counts.snapshot()
    counts.set_counts(names, _rescaled_counts(rest, factor))
    return _rescaled_records(counts, ledger, factor)


def _rescaled_records(
    counts: ClassCounts, ledger: Mapping[str, LedgerRecord], factor: float
) -> Iterator[ArchiveRecord]:
    """The entries, each added to ``counts`` as it is rounded, then all counts."""
    for kept in ledger.values():
        entry = _unpack_entry(kept)
        if entry:
            new = _rescaled_entry(entry, factor)
            counts.add(new.tokens, CLASSES.index(new.label), new.weight, new.sums)
            fields = {**kept.fields, b"weight": b"%d" % new.weight, b"sums": join_sums(new.sums)}
            yield replace(kept, fields=fields)
    yield from _count_records(counts)


def _unpack_entry(kept: LedgerRecord) -> LedgerEntry | None:
    return LedgerEntry.unpack(kept.fields)


def _read_records(records: Iterable[ArchiveRecord]) -> tuple[ClassCounts, dict[str, LedgerRecord]]:
    counts, ledger = ClassCounts(), dict[str, LedgerRecord]()
    for record in records:
        match record:
            case CountsRecord(label, found):
                values = np.fromiter(found.values(), np.int64, len(found))
                counts.set_column(list(found), CLASSES.index(label), values)
            case LedgerRecord():
                ledger[record.message_key] = record
            case TotalsRecord(fields):
                counts.totals = totals_from_hash({name: b"%d" % value for name, value in fields.items()})
    return counts, ledger


def _rescaled_entry(entry: LedgerEntry, factor: float) -> LedgerEntry:
    weight = _rescaled_weight(entry.weight, factor)
    sums = tuple(
        (name, _rescaled_amount(name, amount, entry.weight, weight, factor)) for name, amount in entry.sums
    )
    return replace(entry, weight=weight, sums=sums)


def _rescaled_amount(name: bytes, amount: int, weight: int, new: int, factor: float) -> int:
    """What an event model adds is a multiple of the weight and stays one: a mean stays what it is.

    The count of a first score has nothing to do with the weight.
    """
    if name in _BINS:
        return _rescaled_weight(amount, factor)
    return amount // weight * new if weight and amount % weight == 0 else round(amount * factor)


def _rescaled_weight(weight: int, factor: float) -> int:
    if abs(weight) * factor > MAX_COUNT:
        raise _counts_full_error()
    return grow_weight(weight, factor)


def _rescaled_counts(rows: NDArray[np.int64], factor: float) -> NDArray[np.int64]:
    products = rows * factor
    if np.abs(products).max(initial=0.0) > MAX_COUNT:
        raise _counts_full_error()
    whole: NDArray[np.int64] = np.rint(products).astype(np.int64)
    return whole


def _count_records(counts: ClassCounts) -> Iterator[ArchiveRecord]:
    """All counts, and the totals that they have."""
    names, rows = counts.snapshot()
    for column, label in enumerate(CLASSES):
        values = rows[:, column].tolist()
        for first in range(0, len(names), _TOKENS_PER_RECORD):
            step = slice(first, first + _TOKENS_PER_RECORD)
            yield CountsRecord(label, {name: n for name, n in zip(names[step], values[step], strict=True) if n})
    yield TotalsRecord(_rescaled_totals(counts))


def _rescaled_totals(counts: ClassCounts) -> Mapping[bytes, int]:
    """The totals anew: those of the messages are as they were, the others are of the rounded counts."""
    vocabulary = counts.vocabulary_counts()
    tokens = vocabulary.sum(axis=0).tolist()
    if max(tokens, default=0) > MAX_COUNT:
        raise _counts_full_error()
    totals = Totals(counts.totals.messages, tuple(tokens), int((vocabulary > 0).any(axis=1).sum()))
    fields = {b"vocabulary": totals.vocabulary_size}
    for column, label in enumerate(CLASSES):
        fields[f"messages:{label}".encode()] = totals.messages[column]
        fields[f"tokens:{label}".encode()] = totals.tokens[column]
    return {name: value for name, value in fields.items() if value}


def _counts_full_error() -> CountsFull:
    return CountsFull(
        "in this model's time base the counts would be too large, and nothing was imported: "
        "set model.name to a new name, whose t0 is now"
    )


_BINS = frozenset(SCORE_BINS)
