"""How much a model keeps beside its counts."""

from __future__ import annotations

from dataclasses import dataclass

MAX_CHANGES = 10_000
"""About how many changes the change stream keeps: 60 MB of 300 tokens each. A mirror further behind rescans."""

MAX_HISTORY_RECORDS = 100_000
"""About how many records the history keeps: 150 bytes each, and another 2 kB where an entry was replaced."""


@dataclass(frozen=True, slots=True)
class RetentionLimits:
    """How much a model keeps.

    About how many changes stay in the change stream and how many records in the history, how many first scores of
    each class, and for how many seconds a ledger entry stays.
    """

    max_changes: int
    max_history_records: int
    max_first_scores: int
    ledger_seconds: int
