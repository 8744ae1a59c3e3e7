"""The audit of lessons: what was acknowledged, what the history says, and what the ledger has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from nbstream.store.model.history import HistoryRecord
from nbstream.store.model.model import Model
from tests.soak.chaos.deviations import Deviation
from tests.soak.chaos.journal import Journal, LessonAttempt
from tests.soak.chaos.lesson_history import counts_agree, explains


def lesson_deviations(
    journal: Journal,
    records: Mapping[str, Sequence[HistoryRecord]],
    crowd_keys: Iterable[str],
) -> Iterator[Deviation]:
    """Yield what is wrong with the history; ``records`` are those of each message, the oldest first."""
    attempts_of: dict[str, list[LessonAttempt]] = {key: [] for key in records}
    for attempt in journal.lessons:
        attempts_of.setdefault(attempt.key, []).append(attempt)
    crowd = set(crowd_keys)
    for key, own_attempts in attempts_of.items():
        labels = [record.label for record in records.get(key, ())]
        is_crowd = key in crowd
        if not (
            counts_agree(own_attempts, labels, journal.faults) if is_crowd else explains(own_attempts, labels)
        ):
            answers = [
                f"{attempt.begun:.1f} to {attempt.ended:.1f} s {attempt.label} by {attempt.route}: "
                f"{attempt.outcome} ({attempt.reply[:60]})"
                for attempt in own_attempts
            ]
            yield Deviation(
                f"message {key}: the history has {labels}, the answers were {'; '.join(answers)}",
                own_attempts[-1].ended if own_attempts else None,
            )


def chain_deviations(
    records: Mapping[str, Sequence[HistoryRecord]], versions: Mapping[str, str]
) -> Iterator[Deviation]:
    """Yield where a record does not follow the one before, or the ledger (key: version) not the last record.

    An entry that was learned automatically has no record, and a person's label may replace it.
    """
    for key, own_records in records.items():
        version = None
        for record in own_records:
            former = record.former.version if record.former and not record.former.is_automatic else None
            if former != version:
                yield Deviation(f"message {key}: a record replaces {former}, the one before wrote {version}")
            version = record.version
        if versions.get(key) != version:
            yield Deviation(f"message {key}: the ledger has {versions.get(key)}, the last record wrote {version}")
    for key in versions.keys() - records.keys():
        yield Deviation(f"message {key}: it is in the ledger and not in the history")


async def records_by_message(model: Model) -> dict[str, list[HistoryRecord]]:
    """Return the whole history, the oldest record first."""
    records: dict[str, list[HistoryRecord]] = {}
    async for record in model.history.records():
        records.setdefault(record.message_key, []).insert(0, record)
    return records
