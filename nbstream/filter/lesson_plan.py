"""One change of what a message is learned as, planned: its entry, and what it would make of the score."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbstream.filter.half_life_warning import HalfLifeMonitor
from nbstream.filter.results import LessonOutcome
from nbstream.filter.scorer import counts_after_lesson
from nbstream.store.model.history import Assessment, LessonNote
from nbstream.store.model.ledger import LedgerEntry

if TYPE_CHECKING:
    from collections.abc import Callable

    from nbstream.filter.protocols import CountSource
    from nbstream.filter.results import Check
    from nbstream.filter.scorer import MessageCounts, Scorer
    from nbstream.tokens.tokenizer import Tokens


@dataclass(frozen=True, slots=True)
class TokenizedMessage:
    """A message to teach: what it is known by, and its tokens.

    ``former_key`` is what an older version knew it by, where that differs; see ``Message.former_key``.
    """

    key: str
    tokens: Tokens
    former_key: str | None = None


@dataclass(frozen=True, slots=True)
class PlannedLesson:
    """The ledger's entry ``known`` gives way to ``new``, None for none; ``then`` are the counts after it.

    ``after`` is the check by those, so by what the change makes of them if nobody else teaches at the same moment.
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
        """What is learned, or taken back where nothing is."""
        entry = self.new_entry or self.old_entry
        return entry.label if entry else None


class LessonPlanner:
    """Plans steps; ``clock`` gives the seconds since the epoch."""

    def __init__(self, scorer: Scorer, counts: CountSource, clock: Callable[[], float]) -> None:
        self._scorer = scorer
        self._counts = counts
        self._clock = clock
        self._half_life_monitor = HalfLifeMonitor()

    def with_scorer(self, scorer: Scorer) -> LessonPlanner:
        """The same by another scorer; what was warned of is not warned of again."""
        other = LessonPlanner(scorer, self._counts, self._clock)
        other._half_life_monitor = self._half_life_monitor
        return other

    def plan(
        self,
        subject: TokenizedMessage,
        label: str | None,
        now: tuple[Check, MessageCounts],
        known: LedgerEntry | None,
        by: tuple[str, str],
    ) -> PlannedLesson:
        """The step from the entry that is ``known`` to ``label`` (None: no entry).

        ``now`` is what is thought before it, ``by`` the source and the actor. Raises ``CountsFull``.
        """
        before, reading = now
        new = self._new_entry(subject.tokens, label, now, known, by) if label else None
        then = counts_after_lesson(reading, known, new)
        if new:
            self._half_life_monitor.check_counts(self._counts.half_life, self._clock(), then)
        after = self._scorer.check(subject.key, subject.tokens, then)
        note = LessonNote(*by, _assessment(before), _assessment(after))
        return PlannedLesson(_outcome(known, label), known, new, then, before, after, note)

    def _new_entry(
        self,
        tokens: Tokens,
        label: str,
        now: tuple[Check, MessageCounts],
        known: LedgerEntry | None,
        by: tuple[str, str],
    ) -> LedgerEntry:
        check, reading = now
        weight, sums = self._scorer.weigh_lesson(tokens, check.score, label, reading, known)
        at = self._clock()
        score, first = check.score, self._scorer.first_score(check, reading, at).pack()
        if known:
            score, first = known.score, known.first_score
        version = secrets.token_hex(8)
        return LedgerEntry(version, label, weight, tokens.all, at, *by, score, sums, first)


def _outcome(known: LedgerEntry | None, label: str | None) -> LessonOutcome:
    if label is None:
        return LessonOutcome.UNLEARNED
    return LessonOutcome.LEARNED if known is None else LessonOutcome.RELEARNED


def _assessment(check: Check) -> Assessment:
    return Assessment(check.probability, str(check.verdict))
