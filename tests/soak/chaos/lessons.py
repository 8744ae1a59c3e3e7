"""The audit of lessons: what was acknowledged, what the history says, and what the ledger has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from nbstream.store.model.history import HistoryRecord
from nbstream.store.model.model import Model
from tests.soak.chaos.deviations import Deviation
from tests.soak.chaos.journal import ACKNOWLEDGEMENTS, Fault, Journal, LessonAttempt
from tests.soak.chaos.lesson_history import Label, counts_agree, explains, last_word_holds


def lesson_deviations(
    journal: Journal,
    records: Mapping[str, Sequence[HistoryRecord]],
    crowd_keys: Iterable[str],
    *,
    is_lossless: bool,
) -> Iterator[Deviation]:
    """Yield what is wrong with the history; ``records`` are those of each message, the oldest first.

    ``is_lossless`` says that Redis has lost nothing. Else only the last word on each message must hold.
    """
    attempts_of: dict[str, list[LessonAttempt]] = {key: [] for key in records}
    for attempt in journal.lessons:
        attempts_of.setdefault(attempt.key, []).append(attempt)
    crowd = set(crowd_keys)
    for key, own_attempts in attempts_of.items():
        labels = [record.label for record in records.get(key, ())]
        if not _agrees(own_attempts, labels, journal.faults, is_crowd=key in crowd, is_lossless=is_lossless):
            answers = [
                f"{attempt.begun:.1f} to {attempt.ended:.1f} s {attempt.label} by {attempt.route}: "
                f"{attempt.outcome} ({attempt.reply[:60]})"
                for attempt in own_attempts
            ]
            yield Deviation(
                f"message {key}: the history has {labels}, the answers were {'; '.join(answers)}",
                own_attempts[-1].ended if own_attempts else None,
            )


def _agrees(
    attempts: Sequence[LessonAttempt],
    labels: Sequence[Label],
    faults: Sequence[Fault],
    *,
    is_crowd: bool,
    is_lossless: bool,
) -> bool:
    if is_lossless:
        return counts_agree(attempts, labels, faults) if is_crowd else explains(attempts, labels)
    last = labels[-1] if labels else None
    # Nobody knows who of a crowd had the last word: each acknowledged attempt may have been the last one.
    ends = (
        [[*attempts, attempt] for attempt in attempts if attempt.outcome in ACKNOWLEDGEMENTS] if is_crowd else []
    )
    return any(last_word_holds(end, last) for end in ends or [list(attempts)])


def chain_deviations(
    records: Mapping[str, Sequence[HistoryRecord]], versions: Mapping[str, str]
) -> Iterator[Deviation]:
    """Yield where a record does not follow the one before, or the ledger (key: version) not the last record."""
    for key, own_records in records.items():
        version = None
        for record in own_records:
            former = record.former.version if record.former else None
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
