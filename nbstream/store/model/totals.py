"""The totals of a model as they are stored: of what people taught, and of what was learned without them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from nbstream.bayes.counts import CLASSES, Totals
from nbstream.bayes.kinds import automatic_columns

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class StoredTotals(NamedTuple):
    """The totals of both kinds of columns, and the generation of the automatic ones."""

    people: Totals
    automatic: Totals
    generation: int

    @classmethod
    def of_hash(cls, fields: Mapping[bytes, bytes | int]) -> StoredTotals:
        """The totals in the fields of the totals hash; a missing field is 0."""
        generation = int(fields.get(b"generation", 0))
        return cls(
            _totals(fields, CLASSES, b"vocabulary"),
            _totals(fields, automatic_columns(generation), b"vocabulary:auto"),
            generation,
        )

    @classmethod
    def of_pairs(cls, pairs: Sequence[bytes]) -> StoredTotals:
        """The totals in the names and values of these fields in turn, the form in which a script returns them."""
        return cls.of_hash(dict(zip(pairs[0::2], pairs[1::2], strict=True)))


def _totals(fields: Mapping[bytes, bytes | int], columns: Sequence[str], vocabulary: bytes) -> Totals:
    return Totals(
        messages=tuple(int(fields.get(f"messages:{column}".encode(), 0)) for column in columns),
        token_weights=tuple(int(fields.get(f"tokens:{column}".encode(), 0)) for column in columns),
        vocabulary_size=int(fields.get(vocabulary, 0)),
    )
