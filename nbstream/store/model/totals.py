"""The totals of a model as Redis stores them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbstream.bayes.counts import CLASSES, Totals

if TYPE_CHECKING:
    from collections.abc import Mapping


def totals_from_hash(fields: Mapping[bytes, bytes]) -> Totals:
    """``Totals`` from the fields of the totals hash; a missing field is 0."""
    return Totals(
        messages=tuple(int(fields.get(f"messages:{label}".encode(), 0)) for label in CLASSES),
        tokens=tuple(int(fields.get(f"tokens:{label}".encode(), 0)) for label in CLASSES),
        vocabulary_size=int(fields.get(b"vocabulary", 0)),
    )
