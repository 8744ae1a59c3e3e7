"""Plan a lesson: the new ledger entry of a message, and the check of the message after it."""

from __future__ import annotations

import secrets
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from nbstream.bayes.columns import kind_of, label_of
from nbstream.bayes.lesson_weight import reinforced_weights
from nbstream.errors import CountsFull
from nbstream.filter.message_counts import check_room, counts_after_lesson
from nbstream.filter.results import Contradiction, FeedbackOutcome, FeedbackResult
from nbstream.policy.thresholds import PrequentialScore
from nbstream.store.model.history import Assessment, LessonNote
from nbstream.store.model.ledger import LedgerEntry, entry_of_people
from nbstream.store.model.scripts import Lesson

if TYPE_CHECKING:
    from collections.abc import Callable

    from nbstream.filter.message_counts import MessageCounts
    from nbstream.filter.scorer import Scorer
    from nbstream.policy.check import Check
    from nbstream.policy.feedback_source import FeedbackSource
    from nbstream.tokens.tokens import TokenizedMessage


@dataclass(frozen=True, kw_only=True)
class PlannedLesson(Lesson):
    """A lesson to commit, with the checks of its message ``before`` and ``after`` it.

    ``counts_after`` are the counts that the change makes if nobody else teaches at the same moment, and ``after``
    is computed from them.
    """

    outcome: FeedbackOutcome
    counts_after: MessageCounts
    before: Check
    after: Check

    @property
    def columns(self) -> tuple[str | None, str | None]:
        """The columns of the message before and after the lesson; None for none."""
        return self.old.column if self.old else None, self.new.column if self.new else None

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


class Feedback(NamedTuple):
    """What somebody says of a message: the class that it is learned into; without one it is taken back."""

    message: TokenizedMessage
    class_name: str | None
    source: FeedbackSource


class CountedCheck(NamedTuple):
    """A check, and the counts that it was computed from."""

    check: Check
    counts: MessageCounts


class LessonPlanner:
    """Plans lessons: one change of one ledger entry at a time. ``clock`` gives the seconds since the epoch.

    ``own_model`` is the name of the model that they are for, empty for the common one.
    """

    def __init__(self, scorer: Scorer, clock: Callable[[], float], own_model: str = "") -> None:
        self._scorer = scorer
        self._clock = clock
        self._own_model = own_model

    def plan(
        self, feedback: Feedback, entry: LedgerEntry | None, counts: MessageCounts, *, may_reinforce: bool
    ) -> PlannedLesson | FeedbackResult:
        """Plan what feedback does to a message with that ledger entry; what changes nothing is a result already.

        ``counts`` are those of the message, and of the tokens of the entry. ``may_reinforce``: a label that the
        message has already may get more weight, where its source and the check allow that. What was learned
        without people is taken back, and the rest is planned as if it had not been. Raises ``CountsFull``.
        """
        message, class_name, source = feedback
        by_people = counts_after_lesson(counts, entry, None) if entry and entry.is_automatic else counts
        before = CountedCheck(self._scorer.check(message.key, message.tokens, by_people), counts)
        seen, check = source.reinforced_version, before.check
        if seen is None and class_name != (entry.column if entry else None):
            return self._plan_label(feedback, before, entry)
        if entry is None or entry.is_automatic:
            label, kind = (label_of(class_name), kind_of(class_name)) if class_name else (None, "")
            return FeedbackResult(
                FeedbackOutcome.UNKNOWN, label, check, check, kind=kind, own_model=self._own_model
            )
        if seen is not None:
            may_reinforce = (entry.column, entry.version) == (class_name, seen)
        contradiction = self._contradiction(check, entry, source)
        if may_reinforce and contradiction and contradiction.wait_seconds == 0:
            # A retry must not fail where nothing has to be written: the message has this label already.
            with suppress(CountsFull):
                if planned := self.plan_reinforced(feedback, before, entry):
                    return planned
        return FeedbackResult(
            FeedbackOutcome.ALREADY,
            entry.label,
            check,
            check,
            contradiction,
            kind=entry.kind,
            own_model=self._own_model,
        )

    def result(self, planned: PlannedLesson, after: Check, source: FeedbackSource) -> FeedbackResult:
        """Return the result of a lesson that is made; ``after`` is the check of its message then."""
        former = entry_of_people(planned.old)
        return FeedbackResult(
            planned.outcome,
            planned.label,
            planned.before,
            after,
            self._contradiction(after, planned.new, source) if planned.new else None,
            was_automatic=planned.outcome is FeedbackOutcome.UNLEARNED and former is None,
            kind=planned.kind,
            former_class_name=former.column if former else None,
            own_model=self._own_model,
        )

    def _contradiction(self, check: Check, entry: LedgerEntry, source: FeedbackSource) -> Contradiction | None:
        """Return how ``source`` may reinforce the label of the entry, where the check contradicts it."""
        if not check.contradicts(entry.label):
            return None
        seconds_since = self._clock() - entry.learned_at
        wait_seconds = source.seconds_until_reinforcing(entry.source, entry.actor, seconds_since)
        return Contradiction(not reinforced_weights(entry.weight), wait_seconds)

    def _plan_label(
        self, feedback: Feedback, before: CountedCheck, old_entry: LedgerEntry | None
    ) -> PlannedLesson:
        """Plan the change to an entry of a class that the message has not, or to no entry."""
        if feedback.class_name is None:
            return self._plan_change(feedback, FeedbackOutcome.UNLEARNED, before, (old_entry, None))
        label, taught = label_of(feedback.class_name), entry_of_people(old_entry)
        if taught and taught.label == label:  # only the kind changes, and P(spam) does not
            weighed = taught.weight, taught.sums
        else:
            weighed = self._scorer.weigh_lesson(before.check, label, before.counts, taught)
        new_entry = self._entry(feedback, feedback.class_name, weighed, before.check, taught)
        outcome = FeedbackOutcome.RELEARNED if taught else FeedbackOutcome.LEARNED
        planned = self._plan_change(feedback, outcome, before, (old_entry, new_entry))
        check_room(planned.counts_after)  # there always is room for less
        return planned

    def plan_reinforced(
        self, feedback: Feedback, before: CountedCheck, old_entry: LedgerEntry
    ) -> PlannedLesson | None:
        """Plan the change to an entry with the same label and more weight, which a person reinforces.

        The weight is the smallest of ``reinforced_weights`` after which the check no longer contradicts the label,
        else the largest. Returns None where the message has the most weight that one message may have. ``before``
        is the check of the message before the lesson. Raises ``CountsFull``.
        """
        planned: PlannedLesson | None = None
        for weight in reinforced_weights(old_entry.weight):
            weighed = weight, old_entry.sums
            new_entry = self._entry(feedback, old_entry.column, weighed, before.check, old_entry)
            planned = self._plan_change(feedback, FeedbackOutcome.REINFORCED, before, (old_entry, new_entry))
            if not planned.after.contradicts(old_entry.label):
                break
        if planned:
            check_room(planned.counts_after)
        return planned

    def _plan_change(
        self,
        feedback: Feedback,
        outcome: FeedbackOutcome,
        before: CountedCheck,
        entries: tuple[LedgerEntry | None, LedgerEntry | None],
    ) -> PlannedLesson:
        """Return the plan to replace the first of two entries by the second."""
        message, _, source = feedback
        counts = counts_after_lesson(before.counts, *entries)
        after = self._scorer.check(message.key, message.tokens, counts)
        assessments = _assessment(before.check), _assessment(after)
        note = LessonNote(source.source, source.actor, *assessments)
        return PlannedLesson(
            message.key, *entries, note, outcome=outcome, counts_after=counts, before=before.check, after=after
        )

    def _entry(
        self,
        feedback: Feedback,
        class_name: str,
        weighed: tuple[int, tuple[tuple[bytes, int], ...]],
        check: Check,
        old_entry: LedgerEntry | None,
    ) -> LedgerEntry:
        """Return a new entry; ``weighed`` are its weight and its sums.

        Both scores are those of before the first label: of ``check``, or what ``old_entry`` has.
        """
        (message, _, source), (weight, sums) = feedback, weighed
        now, tokens = self._clock(), message.tokens.all
        if old_entry:
            score, prequential_score = old_entry.score, old_entry.prequential_score
        else:
            score, prequential_score = check.score, PrequentialScore(now, message.key, check.probability).pack()
        return LedgerEntry(
            version=secrets.token_hex(8),
            column=class_name,
            weight=weight,
            tokens=tokens,
            learned_at=now,
            source=source.source,
            actor=source.actor,
            score=score,
            sums=sums,
            prequential_score=prequential_score,
            packed_tokens=message.packed_tokens,
        )


def _assessment(check: Check) -> Assessment:
    return Assessment(check.probability, str(check.verdict))
