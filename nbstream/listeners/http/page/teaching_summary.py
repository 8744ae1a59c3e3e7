"""What the last changes of the history come to: who taught how much, and what is worth a look.

Rules: pure; days are those of the daemon's time zone. What an undo wrote counts as taken back, whatever it put
back.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from itertools import islice

from nbstream.listeners.http.page.change_selection import MILLISECOND, form_time
from nbstream.policy.bursts import WINDOW_SECONDS, BurstDetector, BurstKind
from nbstream.policy.lesson_source import COMMAND_SOURCE, LessonSource
from nbstream.policy.verdict import Verdict
from nbstream.store.model.history import UNDO_SOURCE, HistoryChange

DAYS = 30
"""So many days are counted one by one, today included."""

MAX_LISTED = 20
"""So many teachers, contradictions, messages and bursts are listed at most."""

_CONFIRMING = {
    "ham": frozenset({str(Verdict.HAM), str(Verdict.UNSURE)}),
    "spam": frozenset({str(Verdict.SPAM), str(Verdict.REJECT), str(Verdict.UNSURE)}),
}


@dataclass(frozen=True, slots=True)
class DayOfTeaching:
    """What was learned on one day, by class, and how many changes took something back."""

    day: date
    learned: Mapping[str, int]
    taken_back: int


@dataclass(slots=True)
class Teacher:
    """Who taught how much: by class, taken back, and against the verdict that the message had before."""

    source: str
    actor: str
    last_at: float
    learned: Counter[str] = field(default_factory=Counter)
    taken_back: int = 0
    contradicting: int = 0

    @property
    def changes(self) -> int:
        """All changes of this teacher."""
        return self.learned.total() + self.taken_back


@dataclass(frozen=True, slots=True)
class Burst:
    """A burst of feedback (see ``policy.bursts``) seen with the lesson at ``at``; it began before that."""

    at: float
    kind: BurstKind
    source: str
    actor: str

    @property
    def since(self) -> str:
        """When the lessons by which the burst was seen began, at the earliest, as a time of a form."""
        return form_time(self.at - WINDOW_SECONDS)

    @property
    def until(self) -> str:
        """When its lessons end, at the earliest: what came later is for a person to judge."""
        return form_time(self.at + MILLISECOND)


@dataclass(frozen=True, slots=True)
class DisputedMessage:
    """A message that people taught both ways, with its changes, newest first."""

    message_key: str
    changes: Sequence[HistoryChange]


@dataclass(frozen=True, slots=True)
class TeachingSummary:
    """What the last ``changes`` changes come to, the oldest of which was at ``since`` (None: there is none).

    ``days`` has each of the last days, the oldest first. The lists begin with who taught most and with what is
    newest, and have at most ``MAX_LISTED`` members; ``contradiction_count`` and ``dispute_count`` count all.
    Contradictions and bursts are of what is still in force.
    """

    changes: int
    since: float | None
    days: Sequence[DayOfTeaching]
    teachers: Sequence[Teacher]
    contradictions: Sequence[HistoryChange]
    contradiction_count: int
    disputes: Sequence[DisputedMessage]
    dispute_count: int
    bursts: Sequence[Burst]


def taught_label(change: HistoryChange) -> str | None:
    """Return the label that somebody taught with this change; None where it took something back."""
    return None if change.note.source == UNDO_SOURCE else change.label


def contradicts_verdict(change: HistoryChange) -> bool:
    """Return whether a label was taught that is the opposite of the verdict before; unsure has no opposite."""
    label = taught_label(change)
    return label is not None and change.note.before.verdict not in _CONFIRMING.get(label, frozenset())


def summarize_teaching(changes: Sequence[HistoryChange], now: float) -> TeachingSummary:
    """Return the summary of ``changes``, newest first; ``now`` is in seconds since the epoch."""
    newest = _newest_by_message(changes)
    contradictions = [change for change in newest if contradicts_verdict(change)]
    disputes = _disputes(changes)
    return TeachingSummary(
        changes=len(changes),
        since=changes[-1].at if changes else None,
        days=_days(changes, now),
        teachers=sorted(_teachers(changes), key=lambda teacher: -teacher.changes)[:MAX_LISTED],
        contradictions=contradictions[:MAX_LISTED],
        contradiction_count=len(contradictions),
        disputes=disputes[:MAX_LISTED],
        dispute_count=len(disputes),
        bursts=list(_bursts(changes, newest))[: -MAX_LISTED - 1 : -1],
    )


def _newest_by_message(changes: Iterable[HistoryChange]) -> Sequence[HistoryChange]:
    """Return the newest change of each message, newest first: what is in force, unless it took something back."""
    newest: dict[str, HistoryChange] = {}
    for change in changes:
        newest.setdefault(change.message_key, change)
    return list(newest.values())


def _days(changes: Iterable[HistoryChange], now: float) -> list[DayOfTeaching]:
    today = datetime.fromtimestamp(now).astimezone().date()
    learned: Counter[tuple[date, str | None]] = Counter(
        (datetime.fromtimestamp(change.at).astimezone().date(), taught_label(change)) for change in changes
    )
    days = [today - timedelta(days=back) for back in reversed(range(DAYS))]
    return [
        DayOfTeaching(day, {label: learned[day, label] for label in _CONFIRMING}, learned[day, None])
        for day in days
    ]


def _teachers(changes: Iterable[HistoryChange]) -> Iterable[Teacher]:
    teachers: dict[tuple[str, str], Teacher] = {}
    for change in changes:  # newest first: a teacher begins with his last one
        source, actor = change.note.source, change.note.actor
        teacher = teachers.setdefault((source, actor), Teacher(source, actor, change.at))
        label = taught_label(change)
        if label is None:
            teacher.taken_back += 1
        else:
            teacher.learned[label] += 1
            teacher.contradicting += contradicts_verdict(change)
    return teachers.values()


def _disputes(changes: Iterable[HistoryChange]) -> list[DisputedMessage]:
    by_message: dict[str, list[HistoryChange]] = {}
    for change in changes:
        by_message.setdefault(change.message_key, []).append(change)
    return [
        DisputedMessage(key, of_message)
        for key, of_message in by_message.items()
        if len({label for change in of_message if (label := taught_label(change))}) > 1
    ]


def _bursts(changes: Sequence[HistoryChange], newest: Sequence[HistoryChange]) -> Iterator[Burst]:
    """Yield the bursts, the oldest first.

    What has been changed since, or was taken back, is no part of one, and neither is what a command taught: that
    is mostly a folder of one class, by somebody who may write to Redis. The history does not say when the model
    had learned enough to decide. While it had not, each verdict was unsure: the lessons before the first other one
    are left out.
    """
    decided = (change.at for change in changes if change.note.before.verdict != Verdict.UNSURE)
    decided_at = min(decided, default=math.inf)
    detector = BurstDetector()
    for change in reversed(newest):
        label, before = taught_label(change), change.note.before
        if label is None or change.note.source == COMMAND_SOURCE or before.verdict not in set(Verdict):
            continue
        if change.at < decided_at:
            continue
        source = LessonSource(change.note.source, change.note.actor)
        for kind in detector.add_lesson(change.at, source, label, Verdict(before.verdict), before.probability):
            yield Burst(change.at, kind, source.source, source.actor)


def page_of_changes(
    changes: Iterable[HistoryChange], before: bytes | None, count: int
) -> tuple[Sequence[HistoryChange], bytes | None]:
    """Return the next ``count`` of some changes, newest first, that come before the stream id ``before``.

    ``before`` is None for the first page. The second value is the stream id to go on from, None at the end.
    """
    limit = _order(before) if before is not None else None
    older = (change for change in changes if limit is None or _order(change.id) < limit)
    page = list(islice(older, count + 1))
    return page[:count], page[count - 1].id if len(page) > count else None


def _order(stream_id: bytes) -> tuple[int, int]:
    milliseconds, _, number = stream_id.partition(b"-")
    return int(milliseconds), int(number)
