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

from nbstream.bayes.calibration import BINS
from nbstream.bayes.counts import CLASSES, Counts, Totals
from nbstream.bayes.half_life import LARGEST, grown
from nbstream.errors import CountsFull
from nbstream.store.model.ledger import Entry, join_sums
from nbstream.store.model.model import totals_from_hash
from nbstream.store.transfer.archive import Column, Kept, Sizes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nbstream.bayes.half_life import HalfLife
    from nbstream.store.transfer.archive import Reader, Record

_STEP = 1000  # counts of a record


def in_time_base(reader: Reader, half_life: HalfLife) -> Iterator[Record]:
    """The records of an archive as they are in that time base, the same at the moment of the export.

    As they come where it is their own; else all have been read when this returns. Raises as ``rebased``.
    """
    try:
        factor = half_life.factor(reader.header.half_life, reader.header.exported)
    except OverflowError as error:
        raise _too_large() from error
    return iter(reader) if factor == 1 else rebased(reader, factor)


def rebased(records: Iterable[Record], factor: float) -> Iterator[Record]:
    """The same model with all counts multiplied by ``factor``; all of ``records`` are read when this returns.

    Raises what the reading of ``records`` raises, and ``CountsFull`` where counts would be too large.
    """
    counts, ledger = _read(records)
    for entry in filter(None, map(_unpacked, ledger.values())):
        counts.subtract(entry.tokens, CLASSES.index(entry.label), entry.weight, entry.sums)
    names, rest = counts.snapshot()
    counts.put(names, _multiplied(rest, factor))
    return _rounded(counts, ledger, factor)


def _rounded(counts: Counts, ledger: Mapping[str, Kept], factor: float) -> Iterator[Record]:
    """The entries, each added to ``counts`` as it is rounded, then all counts."""
    for kept in ledger.values():
        entry = _unpacked(kept)
        if entry:
            new = _entry(entry, factor)
            counts.add(new.tokens, CLASSES.index(new.label), new.weight, new.sums)
            fields = {**kept.fields, b"weight": b"%d" % new.weight, b"sums": join_sums(new.sums)}
            yield replace(kept, fields=fields)
    yield from _columns(counts)


def _unpacked(kept: Kept) -> Entry | None:
    return Entry.unpack(kept.fields)


def _read(records: Iterable[Record]) -> tuple[Counts, dict[str, Kept]]:
    counts, ledger = Counts(), dict[str, Kept]()
    for record in records:
        match record:
            case Column(label, found):
                values = np.fromiter(found.values(), np.int64, len(found))
                counts.put_column(list(found), CLASSES.index(label), values)
            case Kept():
                ledger[record.message_key] = record
            case Sizes(fields):
                counts.totals = totals_from_hash({name: b"%d" % value for name, value in fields.items()})
    return counts, ledger


def _entry(entry: Entry, factor: float) -> Entry:
    weight = _whole(entry.weight, factor)
    sums = tuple((name, _amount(name, amount, entry.weight, weight, factor)) for name, amount in entry.sums)
    return replace(entry, weight=weight, sums=sums)


def _amount(name: bytes, amount: int, weight: int, new: int, factor: float) -> int:
    """What an event model adds is a multiple of the weight and stays one: a mean stays what it is.

    The count of a first score has nothing to do with the weight.
    """
    if name in _BINS:
        return _whole(amount, factor)
    return amount // weight * new if weight and amount % weight == 0 else round(amount * factor)


def _whole(weight: int, factor: float) -> int:
    if abs(weight) * factor > LARGEST:
        raise _too_large()
    return grown(weight, factor)


def _multiplied(rows: NDArray[np.int64], factor: float) -> NDArray[np.int64]:
    products = rows * factor
    if np.abs(products).max(initial=0.0) > LARGEST:
        raise _too_large()
    whole: NDArray[np.int64] = np.rint(products).astype(np.int64)
    return whole


def _columns(counts: Counts) -> Iterator[Record]:
    """All counts, and the totals that they have."""
    names, rows = counts.snapshot()
    for column, label in enumerate(CLASSES):
        values = rows[:, column].tolist()
        for first in range(0, len(names), _STEP):
            step = slice(first, first + _STEP)
            yield Column(label, {name: n for name, n in zip(names[step], values[step], strict=True) if n})
    yield Sizes(_sizes(counts))


def _sizes(counts: Counts) -> Mapping[bytes, int]:
    """The totals anew: those of the messages are as they were, the others are of the rounded counts."""
    vocabulary = counts.vocabulary()
    tokens = vocabulary.sum(axis=0).tolist()
    if max(tokens, default=0) > LARGEST:
        raise _too_large()
    totals = Totals(counts.totals.messages, tuple(tokens), int((vocabulary > 0).any(axis=1).sum()))
    fields = {b"vocabulary": totals.vocabulary}
    for column, label in enumerate(CLASSES):
        fields[f"messages:{label}".encode()] = totals.messages[column]
        fields[f"tokens:{label}".encode()] = totals.tokens[column]
    return {name: value for name, value in fields.items() if value}


def _too_large() -> CountsFull:
    return CountsFull(
        "in this model's time base the counts would be too large, and nothing was imported: "
        "set model.name to a new name, whose t0 is now"
    )


_BINS = frozenset(BINS)
