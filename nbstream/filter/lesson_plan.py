"""Plan a lesson: the new ledger entry of a message, and the check of the message after it."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbstream.filter.results import LessonOutcome
from nbstream.filter.scorer import counts_after_lesson
from nbstream.store.model.history import Assessment, LessonNote
from nbstream.store.model.ledger import LedgerEntry

if TYPE_CHECKING:
    from nbstream.filter.parts import FilterParts
    from nbstream.filter.results import Check
    from nbstream.filter.scorer import MessageCounts, Scorer
    from nbstream.policy.lesson_source import LessonSource
    from nbstream.tokens.tokenizer import Tokens


@dataclass(frozen=True, slots=True)
class TokenizedMessage:
    """A message to teach: its key and its tokens.

    ``former_key`` is the key that an older version gave to the message, where that is another one; see
    ``Message.former_key``.
    """

    key: str
    tokens: Tokens
    former_key: str | None = None


@dataclass(frozen=True, slots=True)
class PlannedLesson:
    """One change of a ledger entry: ``old_entry`` is replaced by ``new_entry``. None stands for no entry.

    ``before`` and ``after`` are the checks of the message. ``counts_after`` are the counts that the change makes
    if nobody else teaches at the same moment, and ``after`` is computed from them.
    """

    outcome: LessonOutcome
    old_entry: LedgerEntry | None
    new_entry: LedgerEntry | None
    counts_after: MessageCounts
    before: Check
    after: Check
    note: LessonNote

    @property
    def label(self) -> str | None:
        """The label that is learned, or the label that is taken back where nothing is learned."""
        entry = self.new_entry or self.old_entry
        return entry.label if entry else None


@dataclass(frozen=True, slots=True)
class CountedCheck:
    """A check, and the counts that it was computed from."""

    check: Check
    counts: MessageCounts


class LessonPlanner:
    """Plans lessons: one change of one ledger entry at a time."""

    def __init__(self, scorer: Scorer, parts: FilterParts) -> None:
        self._scorer = scorer
        self._parts = parts

    def plan(
        self,
        message: TokenizedMessage,
        label: str | None,
        before: CountedCheck,
        old_entry: LedgerEntry | None,
        lesson_source: LessonSource,
    ) -> PlannedLesson:
        """Plan the change from ``old_entry`` to an entry with ``label``, or to no entry where ``label`` is None.

        ``before`` is the check of the message before the lesson. Raises ``CountsFull``.
        """
        new_entry = self._new_entry(message.tokens, label, before, old_entry, lesson_source) if label else None
        counts = counts_after_lesson(before.counts, old_entry, new_entry)
        if new_entry:
            half_life, now = self._parts.counts.half_life, self._parts.clock()
            self._parts.half_life_monitor.check_counts(half_life, now, counts)
        after = self._scorer.check(message.key, message.tokens, counts)
        note = LessonNote(lesson_source.source, lesson_source.actor, _assessment(before.check), _assessment(after))
        outcome = _outcome(old_entry, label)
        return PlannedLesson(outcome, old_entry, new_entry, counts, before.check, after, note)

    def _new_entry(
        self,
        tokens: Tokens,
        label: str,
        before: CountedCheck,
        old_entry: LedgerEntry | None,
        lesson_source: LessonSource,
    ) -> LedgerEntry:
        check, counts = before.check, before.counts
        weight, sums = self._scorer.weigh_lesson(tokens, check.score, label, counts, old_entry)
        now = self._parts.clock()
        score, first_score = check.score, self._scorer.first_score(check, counts, now).pack()
        if old_entry:
            score, first_score = old_entry.score, old_entry.first_score
        return LedgerEntry(
            version=secrets.token_hex(8),
            label=label,
            weight=weight,
            tokens=tokens.all,
            learned_at=now,
            source=lesson_source.source,
            actor=lesson_source.actor,
            score=score,
            sums=sums,
            first_score=first_score,
        )


def _outcome(old_entry: LedgerEntry | None, label: str | None) -> LessonOutcome:
    if label is None:
        return LessonOutcome.UNLEARNED
    return LessonOutcome.LEARNED if old_entry is None else LessonOutcome.RELEARNED


def _assessment(check: Check) -> Assessment:
    return Assessment(check.probability, str(check.verdict))
