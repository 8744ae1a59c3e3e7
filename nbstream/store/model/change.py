"""A change in the change stream: what one lesson, or several that were committed together, did to the counts.

Its fields:

- ``sequence``: its number. The number of the change before it is smaller by the lessons of this one.
- ``lessons``: how many lessons it has; absent for one. A release that does not know this field sees a gap in the
  numbers, and reads the model anew; it does not take half of the change.
- ``totals``: messages and weights of each class in turn, then the vocabulary, separated by spaces.
- ``tokens``: the names of the counts that changed, separated by line feeds; ``counts:`` and a label: the resulting
  counts of that class, separated by spaces; absent where none of them changed.
- what happened to first scores; see ``FirstScores.apply_change``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def lesson_count(change: Mapping[bytes, bytes]) -> int:
    """Return how many lessons a change has. Raises ``ValueError`` for a change that cannot be read."""
    count = int(change.get(b"lessons", b"1"))
    if count < 1:
        raise ValueError("a change has at least one lesson")
    return count
