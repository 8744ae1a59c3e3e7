"""One change of what a message is learned as, planned: its entry, and what it would make of the score."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbstream.filter.half_life_warning import Growing
from nbstream.filter.results import Outcome
from nbstream.filter.scorer import afterwards
from nbstream.store.model.history import Note, Opinion
from nbstream.store.model.ledger import Entry

if TYPE_CHECKING:
    from collections.abc import Callable

    from nbstream.filter.protocols import CountSource
    from nbstream.filter.results import Check
    from nbstream.filter.scorer import Reading, Scorer
    from nbstream.tokens.tokenizer import Tokens


@dataclass(frozen=True, slots=True)
class Taught:
    """A message to teach: what it is known by, and its tokens.

    ``former_key`` is what an older version knew it by, where that differs; see ``Message.former_key``.
    """

    key: str
    tokens: Tokens
    former_key: str | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """The ledger's entry ``known`` gives way to ``new``, None for none; ``then`` are the counts after it.

    ``after`` is the check by those, so by what the change makes of them if nobody else teaches at the same moment.
    """

    outcome: Outcome
    known: Entry | None
    new: Entry | None
    then: Reading
    before: Check
    after: Check
    note: Note

    @property
    def label(self) -> str | None:
        """What is learned, or taken back where nothing is."""
        entry = self.new or self.known
        return entry.label if entry else None


class Steps:
    """Plans steps; ``clock`` gives the seconds since the epoch."""

    def __init__(self, scorer: Scorer, counts: CountSource, clock: Callable[[], float]) -> None:
        self._scorer = scorer
        self._counts = counts
        self._clock = clock
        self._growing = Growing()

    def scored_by(self, scorer: Scorer) -> Steps:
        """The same by another scorer; what was warned of is not warned of again."""
        other = Steps(scorer, self._counts, self._clock)
        other._growing = self._growing
        return other

    def plan(
        self,
        subject: Taught,
        label: str | None,
        now: tuple[Check, Reading],
        known: Entry | None,
        by: tuple[str, str],
    ) -> Step:
        """The step from the entry that is ``known`` to ``label`` (None: no entry).

        ``now`` is what is thought before it, ``by`` the source and the actor. Raises ``CountsFull``.
        """
        before, reading = now
        new = self._entry(subject.tokens, label, now, known, by) if label else None
        then = afterwards(reading, known, new)
        if new:
            self._growing.check(self._counts.half_life, self._clock(), then)
        after = self._scorer.check(subject.key, subject.tokens, then)
        note = Note(*by, _opinion(before), _opinion(after))
        return Step(_outcome(known, label), known, new, then, before, after, note)

    def _entry(
        self,
        tokens: Tokens,
        label: str,
        now: tuple[Check, Reading],
        known: Entry | None,
        by: tuple[str, str],
    ) -> Entry:
        check, reading = now
        weight, sums = self._scorer.lesson(tokens, check.score, label, reading, known)
        at = self._clock()
        score, first = check.score, self._scorer.first(check, reading, at).pack()
        if known:
            score, first = known.score, known.first
        version = secrets.token_hex(8)
        return Entry(version, label, weight, tokens.all, at, *by, score, sums, first)


def _outcome(known: Entry | None, label: str | None) -> Outcome:
    if label is None:
        return Outcome.UNLEARNED
    return Outcome.LEARNED if known is None else Outcome.RELEARNED


def _opinion(check: Check) -> Opinion:
    return Opinion(check.probability, str(check.verdict))
