"""The conversion of an archive into another time base: all counts are multiplied by one factor and rounded.

Rules: the weight of each ledger entry is rounded first, and the counts are the sums of the rounded weights, so
that unlearning stays exact; the share of the counts that belongs to no entry any more is multiplied and rounded as
a whole. All counts and the packed ledger entries are in memory meanwhile, because the last line of an archive may
still replace the first one.

If a token was evicted (``model.max_tokens``) while ledger entries contain it, its counts may be off by a rounding
error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from nbstream.bayes.calibration import SCORE_BINS
from nbstream.bayes.counts import CLASSES, ClassCounts, Totals, is_sum
from nbstream.bayes.half_life import MAX_COUNT, grow_weight
from nbstream.errors import CountsFull
from nbstream.store.model.ledger import LedgerEntry, join_sums
from nbstream.store.model.model import totals_from_hash
from nbstream.store.transfer.archive import CountsRecord, LedgerRecord, TotalsRecord

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nbstream.bayes.half_life import HalfLife
    from nbstream.store.transfer.archive import ArchiveReader, ArchiveRecord

_TOKENS_PER_RECORD = 1000


def convert_time_base(reader: ArchiveReader, half_life: HalfLife) -> Iterator[ArchiveRecord]:
    """Return the records of an archive in the time base ``half_life``.

    At the time of the export a lesson weighs the same in both. If the archive has this time base already, its
    records are yielded as they are read; otherwise all have been read when this returns. Raises as
    ``rescale_records``.
    """
    try:
        factor = half_life.conversion_factor(reader.header.half_life, reader.header.exported)
    except OverflowError as error:
        raise _counts_full_error() from error
    return iter(reader) if factor == 1 else rescale_records(reader, factor)


def rescale_records(records: Iterable[ArchiveRecord], factor: float) -> Iterator[ArchiveRecord]:
    """Return the records of the same model with all counts multiplied by ``factor``.

    All of ``records`` have been read when this returns. Raises the errors of reading ``records``, and
    ``CountsFull`` if counts would be too large.
    """
    counts, ledger = _read_records(records)
    for entry in filter(None, map(_unpack_entry, ledger.values())):
        counts.subtract(entry.tokens, CLASSES.index(entry.label), entry.weight, entry.sums)
    names, counts_without_entry = counts.snapshot()
    counts.set_counts(names, _rescaled_counts(counts_without_entry, factor))
    return _rescaled_records(counts, ledger, factor)


def _rescaled_records(
    counts: ClassCounts, ledger: Mapping[str, LedgerRecord], factor: float
) -> Iterator[ArchiveRecord]:
    """Yield the rescaled entries, each of which is added to ``counts``, and then all counts."""
    for record in ledger.values():
        entry = _unpack_entry(record)
        if entry:
            rescaled = _rescaled_entry(entry, factor)
            counts.add(rescaled.tokens, CLASSES.index(rescaled.label), rescaled.weight, rescaled.sums)
            fields = {**record.fields, b"weight": b"%d" % rescaled.weight, b"sums": join_sums(rescaled.sums)}
            yield replace(record, fields=fields)
    yield from _count_records(counts)


def _unpack_entry(record: LedgerRecord) -> LedgerEntry | None:
    return LedgerEntry.unpack(record.fields)


def _read_records(records: Iterable[ArchiveRecord]) -> tuple[ClassCounts, dict[str, LedgerRecord]]:
    counts, ledger = ClassCounts(), dict[str, LedgerRecord]()
    for record in records:
        match record:
            case CountsRecord(label, class_counts):
                values = np.fromiter(class_counts.values(), np.int64, len(class_counts))
                counts.set_column(list(class_counts), CLASSES.index(label), values)
            case LedgerRecord():
                ledger[record.message_key] = record
            case TotalsRecord(fields):
                counts.set_totals(totals_from_hash(fields))
    return counts, ledger


def _rescaled_entry(entry: LedgerEntry, factor: float) -> LedgerEntry:
    weight = _rescaled_weight(entry.weight, factor)
    sums = tuple(
        (name, _rescaled_amount(name, amount, entry.weight, weight, factor)) for name, amount in entry.sums
    )
    return replace(entry, weight=weight, sums=sums)


def _rescaled_amount(name: bytes, amount: int, weight: int, new_weight: int, factor: float) -> int:
    """Return the rescaled amount of a sum.

    A sum of an event model is a multiple of the weight and stays one, so that a mean does not change. The count of
    a first score does not depend on the weight.
    """
    if name in _BINS:
        return _rescaled_weight(amount, factor)
    return amount // weight * new_weight if weight and amount % weight == 0 else round(amount * factor)


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
    """Yield all counts, and then their totals."""
    names, rows = counts.snapshot()
    for column, label in enumerate(CLASSES):
        values = rows[:, column].tolist()
        for first in range(0, len(names), _TOKENS_PER_RECORD):
            step = slice(first, first + _TOKENS_PER_RECORD)
            yield CountsRecord(label, {name: n for name, n in zip(names[step], values[step], strict=True) if n})
    yield TotalsRecord(_rescaled_totals(counts))


def _rescaled_totals(counts: ClassCounts) -> Mapping[bytes, int]:
    """Return the totals of the rounded counts; the numbers of messages stay as they were."""
    names, rows = counts.snapshot()
    vocabulary = rows[[i for i, name in enumerate(names) if not is_sum(name)]]
    tokens = vocabulary.sum(axis=0).tolist()
    if max(tokens, default=0) > MAX_COUNT:
        raise _counts_full_error()
    totals = Totals(counts.totals.messages, tuple(tokens), int((vocabulary > 0).any(axis=1).sum()))
    fields = {b"vocabulary": totals.vocabulary_size}
    for column, label in enumerate(CLASSES):
        fields[f"messages:{label}".encode()] = totals.messages[column]
        fields[f"tokens:{label}".encode()] = totals.token_weights[column]
    return {name: value for name, value in fields.items() if value}


def _counts_full_error() -> CountsFull:
    return CountsFull(
        "in this model's time base the counts would be too large, and nothing was imported: "
        "set model.name to a new name, whose t0 is now"
    )


_BINS = frozenset(SCORE_BINS)
