"""Plan a lesson: the new ledger entry of a message, and the check of the message after it."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbstream.bayes.kinds import kind_of, kind_sums, label_of
from nbstream.bayes.lesson_weight import insisted_weights
from nbstream.filter.message_counts import check_room, counts_after_lesson, prequential_score_sums
from nbstream.filter.results import Lesson, LessonOutcome
from nbstream.policy.prequential_scores import PrequentialScore
from nbstream.store.model.history import Assessment, LessonNote
from nbstream.store.model.ledger import LedgerEntry
from nbstream.store.model.scripts import LessonCommit

if TYPE_CHECKING:
    from nbstream.filter.message_counts import MessageCounts
    from nbstream.filter.parts import FilterParts
    from nbstream.filter.results import Check, Contradiction
    from nbstream.filter.scorer import Scorer
    from nbstream.policy.lesson_source import LessonSource
    from nbstream.tokens.tokenizer import TokenizedMessage


@dataclass(frozen=True, kw_only=True)
class PlannedLesson(LessonCommit):
    """A lesson to commit, with the checks of its message ``before`` and ``after`` it.

    ``counts_after`` are the counts that the change makes if nobody else teaches at the same moment, and ``after``
    is computed from them.
    """

    outcome: LessonOutcome
    counts_after: MessageCounts
    before: Check
    after: Check

    @property
    def labels(self) -> tuple[str | None, str | None]:
        """The labels of the message before and after the lesson; None for no label."""
        return self.old.label if self.old else None, self.new.label if self.new else None

    @property
    def label(self) -> str | None:
        """The label that is learned, or the label that is taken back where nothing is learned."""
        entry = self.new or self.old
        return entry.label if entry else None

    @property
    def kind(self) -> str:
        """The kind that is learned or taken back; empty for none."""
        entry = self.new or self.old
        return entry.kind if entry else ""

    def result(self, after: Check, contradiction: Contradiction | None = None) -> Lesson:
        """Return the result once the lesson is made; ``after`` is the check of its message then."""
        former = self.old.class_name if self.old else None
        return Lesson(
            self.outcome, self.label, self.before, after, contradiction, kind=self.kind, former_class_name=former
        )


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
        class_name: str | None,
        before: CountedCheck,
        old_entry: LedgerEntry | None,
        lesson_source: LessonSource,
    ) -> PlannedLesson:
        """Plan the change from ``old_entry`` to an entry of a class, or to no entry where ``class_name`` is None.

        ``before`` is the check of the message before the lesson. Raises ``CountsFull``.
        """
        new_entry = self._new_entry(message, class_name, before, old_entry, lesson_source) if class_name else None
        planned = self._plan_change(
            message, _outcome(old_entry, class_name), before, (old_entry, new_entry), lesson_source
        )
        if new_entry:  # there always is room for less
            check_room(planned.counts_after)
        return planned

    def plan_insisted(
        self, message: TokenizedMessage, before: CountedCheck, old_entry: LedgerEntry, lesson_source: LessonSource
    ) -> PlannedLesson | None:
        """Plan the change to an entry with the same label and more weight, which a person insists on.

        The weight is the smallest of ``insisted_weights`` after which the check no longer contradicts the label,
        else the largest. Returns None where the message has the most weight that one message may have. ``before``
        is the check of the message before the lesson. Raises ``CountsFull``.
        """
        planned: PlannedLesson | None = None
        for weight in insisted_weights(old_entry.weight):
            weighed = weight, tuple(prequential_score_sums(old_entry))
            new_entry = self._entry(message, old_entry.class_name, weighed, before.check, old_entry, lesson_source)
            planned = self._plan_change(
                message, LessonOutcome.INSISTED, before, (old_entry, new_entry), lesson_source
            )
            if not planned.after.contradicts(old_entry.label):
                break
        if planned:
            check_room(planned.counts_after)
        return planned

    def _plan_change(
        self,
        message: TokenizedMessage,
        outcome: LessonOutcome,
        before: CountedCheck,
        entries: tuple[LedgerEntry | None, LedgerEntry | None],
        lesson_source: LessonSource,
    ) -> PlannedLesson:
        """Return the plan to replace the first of two entries by the second."""
        counts = counts_after_lesson(before.counts, *entries)
        after = self._scorer.check(message.key, message.tokens, counts)
        assessments = _assessment(before.check), _assessment(after)
        note = LessonNote(lesson_source.source, lesson_source.actor, *assessments)
        return PlannedLesson(
            message.key, *entries, note, outcome=outcome, counts_after=counts, before=before.check, after=after
        )

    def _new_entry(
        self,
        message: TokenizedMessage,
        class_name: str,
        before: CountedCheck,
        old_entry: LedgerEntry | None,
        lesson_source: LessonSource,
    ) -> LedgerEntry:
        label = label_of(class_name)
        if old_entry and old_entry.label == label:  # only the kind changes, and P(spam) does not
            weighed = old_entry.weight, tuple(prequential_score_sums(old_entry))
        else:
            weighed = self._scorer.weigh_lesson(before.check, label, before.counts, old_entry)
        return self._entry(message, class_name, weighed, before.check, old_entry, lesson_source)

    def _entry(
        self,
        message: TokenizedMessage,
        class_name: str,
        weighed: tuple[int, tuple[tuple[bytes, int], ...]],
        check: Check,
        old_entry: LedgerEntry | None,
        lesson_source: LessonSource,
    ) -> LedgerEntry:
        """Return a new entry; ``weighed`` are its weight and its sums, without those of its kind.

        Both scores are those of before the first label: of ``check``, or what ``old_entry`` has.
        """
        weight, sums = weighed
        now, tokens = self._parts.clock(), message.tokens.all
        if old_entry:
            score, prequential_score = old_entry.score, old_entry.prequential_score
        else:
            score, prequential_score = check.score, PrequentialScore(now, message.key, check.probability).pack()
        return LedgerEntry(
            version=secrets.token_hex(8),
            label=label_of(class_name),
            weight=weight,
            tokens=tokens,
            learned_at=now,
            source=lesson_source.source,
            actor=lesson_source.actor,
            score=score,
            sums=(*kind_sums(kind_of(class_name), tokens, weight), *sums),
            prequential_score=prequential_score,
            packed_tokens=message.packed_tokens,
        )


def _outcome(old_entry: LedgerEntry | None, class_name: str | None) -> LessonOutcome:
    if class_name is None:
        return LessonOutcome.UNLEARNED
    return LessonOutcome.LEARNED if old_entry is None else LessonOutcome.RELEARNED


def _assessment(check: Check) -> Assessment:
    return Assessment(check.probability, str(check.verdict))
