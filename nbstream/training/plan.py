"""The plan: which messages of a site are learned, in numbers and words, before anything is learned.

Rules: pure, but for the mailboxes that a ``MailSource`` reads.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, cast

from nbstream.training.choice import LABELS, Candidate, Candidates, Skipped
from nbstream.training.messages import MessagePlace, SkippedMail

if TYPE_CHECKING:
    from nbstream.training.messages import Account, MailboxMessage, MailSource

SLICES = 10
"""A plan is learned in so many slices; the messages of the last one are checked before they are learned."""

_MAX_REASONS = 50
_MAX_MESSAGES = 200_000  # of an account: those of ten folders that are full
_TOO_MANY = f"has more than {_MAX_MESSAGES:,} messages: the rest is left out"
_FEW = 50


@dataclass(slots=True)
class Skips:
    """What a source has left out: how often for each reason, and the first place."""

    by_reason: dict[str, tuple[int, str]] = field(default_factory=dict)

    def add(self, skipped: SkippedMail) -> None:
        """Count one more place that is left out."""
        why = skipped.why if skipped.why in self.by_reason or len(self.by_reason) < _MAX_REASONS else "and more"
        count, first = self.by_reason.get(why, (0, skipped.place))
        self.by_reason[why] = (count + 1, first)

    def lines(self) -> Sequence[str]:
        """Return one line for each reason."""
        return [
            f"{first} {why}" if count == 1 else f"{count} times, {first} first: {why}"
            for why, (count, first) in self.by_reason.items()
        ]


@dataclass(frozen=True, slots=True)
class Plan:
    """What is learned of a site's mailboxes, in the order of learning, and what is left out."""

    chosen: Sequence[Candidate]
    accounts: int
    per_account: int
    left_out: Counter[Skipped]
    skips: Skips

    def slices(self) -> Iterator[Sequence[MessagePlace]]:
        """Yield where the messages of each slice are; the number of each is its place in ``chosen``."""
        edges = [len(self.chosen) * i // SLICES for i in range(SLICES + 1)]
        for start, end in itertools.pairwise(edges):
            yield [
                MessagePlace(number, candidate.account, candidate.folder, candidate.locator)
                for number, candidate in enumerate(self.chosen[start:end], start)
            ]

    @property
    def first_checked(self) -> int:
        """The place in the order from which on messages are checked before they are learned."""
        return len(self.chosen) * (SLICES - 1) // SLICES

    def lines(self) -> Iterator[str]:
        """Yield the plan in words, one line for each fact."""
        yield f"accounts: {self.accounts}, messages: {len(self.chosen) + self.left_out.total()}"
        for label in LABELS:
            yield _describe_class(label, [candidate for candidate in self.chosen if candidate.label == label])
        yield f"an account gives at most {self.per_account} of a class, the newest"
        for reason, count in self.left_out.most_common():
            yield f"left out: {count} {reason}"
        yield from (f"skipped: {line}" for line in self.skips.lines())


def make_plan(
    source: MailSource, per_account: int, advance: Callable[[int], object] = lambda _count: None
) -> Plan:
    """Read what the choice needs of all mailboxes, and choose.

    ``advance`` is called with the number of accounts that were read meanwhile.
    """
    skips, candidates = Skips(), Candidates(per_account)
    for account in source.accounts(skips.add):
        candidates.add_account(account, _some_messages(source, account, skips))
        advance(1)
    chosen = candidates.choose()
    return Plan(chosen, candidates.accounts, per_account, +candidates.left_out, skips)


def _some_messages(source: MailSource, account: Account, skips: Skips) -> Iterator[MailboxMessage]:
    with closing(cast("Generator[MailboxMessage]", source.messages(account, skips.add))) as messages:
        yield from itertools.islice(messages, _MAX_MESSAGES)
        if next(messages, None):
            skips.add(SkippedMail(account.location, _TOO_MANY))


def _describe_class(label: str, chosen: Sequence[Candidate]) -> str:
    if not chosen:
        return f"{label}: nothing; a model needs {_FEW} of each class"
    accounts = len({candidate.account for candidate in chosen})
    arrived = [candidate.arrived for candidate in chosen if candidate.arrived > 0]
    span = f", from {_day(min(arrived))} to {_day(max(arrived))}" if arrived else ""
    few = f"; a model needs {_FEW} of each class" if len(chosen) < _FEW else ""
    return f"{label}: {len(chosen)} messages of {accounts} accounts{span}{few}"


def _day(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d")
