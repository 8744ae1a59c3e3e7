"""The plan: which messages of a site are learned, in numbers and words, before anything is learned.

Rules: pure, but for the mailboxes that a ``MailSource`` reads. A user's messages are a part of the plan where they
go into his own model, and those of all others are the first part.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, cast

import numpy as np

from nbstream.training.choice import LABELS, Candidates, Choice, Skipped, choose, months_of
from nbstream.training.messages import SkippedMail

if TYPE_CHECKING:
    from nbstream.training.messages import Account, MailboxMessage, MailSource, MessagePlace

SLICES = 10
"""A part is learned in so many slices; the messages of the last one are checked before they are learned."""

_MAX_REASONS = 50
_MAX_MESSAGES = 200_000  # of an account: those of ten folders that are full
_TOO_MANY = f"has more than {_MAX_MESSAGES:,} messages: the rest is left out"
_FEW = 50
_SAMPLE = 10
_ABOUT_MONTHS = (
    "left out: of months that one class alone has, the calendar would be learned as a clue; "
    "learn ham PATH and learn spam PATH teach them all the same"
)
_DAY = 86_400


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
class PlanPart:
    """What one model learns: the common one where ``user`` is None, else his own one."""

    user: str | None
    choice: Choice

    def slices(self) -> Iterator[tuple[int, int]]:
        """Yield the first place in the order of each slice, and the place behind it."""
        count = len(self.choice.order)
        edges = [count * i // SLICES for i in range(SLICES + 1)]
        yield from itertools.pairwise(edges)

    @property
    def first_checked(self) -> int:
        """The place in the order from which on messages are checked before they are learned."""
        return len(self.choice.order) * (SLICES - 1) // SLICES


@dataclass(frozen=True, slots=True)
class Plan:
    """What is learned of a site's mailboxes."""

    parts: Sequence[PlanPart]
    accounts: int
    per_account: int
    skips: Skips

    def counts(self) -> dict[str, int]:
        """Return how many messages of each class are learned."""
        labels = np.concatenate([_column(part.choice, "label") for part in self.parts])
        return {label: int((labels == number).sum()) for number, label in enumerate(LABELS)}

    def sample(self, label: str) -> Sequence[MessagePlace]:
        """Return where ten messages of a class are, at equal distances in the order of learning."""
        of_class = [
            (part.choice, number)
            for part in self.parts
            for number in np.flatnonzero(_column(part.choice, "label") == LABELS.index(label)).tolist()
        ]
        shown = np.linspace(0, len(of_class) - 1, min(_SAMPLE, len(of_class))).astype(int).tolist()
        return [choice.places(number, number + 1)[0] for choice, number in (of_class[i] for i in shown)]

    def lines(self) -> Sequence[str]:
        """Return the plan in words, one line for each fact."""
        left_out: dict[Skipped, int] = defaultdict(int)
        for part in self.parts:
            for reason, count in part.choice.left_out.items():
                left_out[reason] += count
        own = [part for part in self.parts if part.user is not None and part.choice.order]
        lines = [f"accounts: {self.accounts}, messages: {sum(left_out.values()) + sum(self.counts().values())}"]
        lines += [self._describe_class(number) for number in range(len(LABELS))]
        if own:
            lines.append(
                f"{sum(len(part.choice.order) for part in own)} of them in the own models of {len(own)} users"
            )
        lines += _describe_balance(self.counts(), [self._arrived(number) for number in range(len(LABELS))])
        lines += self._describe_months()
        lines.append(f"an account gives at most {self.per_account} of a class, the newest")
        lines += [
            f"left out: {count} {reason}{self._months_alone(reason)}"
            for reason, count in sorted(left_out.items(), key=lambda item: -item[1])
        ]
        if left_out.keys() & {Skipped.HAM_ALONE, Skipped.SPAM_ALONE}:
            lines.append(_ABOUT_MONTHS)
        return [*lines, *(f"skipped: {line}" for line in self.skips.lines())]

    def _describe_months(self) -> Iterator[str]:
        """Yield what is learned of a class although its months have nothing of the other one."""
        alone = [list[int](), list[int]()]
        for part in self.parts:
            labels, months = _column(part.choice, "label"), months_of(_column(part.choice, "arrived"))
            of_class = [months[labels == number] for number in range(len(LABELS))]
            if all(map(len, of_class)):
                for number, other in enumerate(reversed(of_class)):
                    alone[number] += of_class[number][~np.isin(of_class[number], other)].tolist()
        for number, of_class in enumerate(alone):
            if of_class:
                yield (
                    f"balance: {len(of_class)} {LABELS[number]} are of months without {LABELS[1 - number]} "
                    f"that is learned ({_months(of_class)}): when they came is a clue until there is more of both"
                )

    def _months_alone(self, reason: Skipped) -> str:
        """Return from when messages are that are left out for their month; nothing for another reason."""
        arrived = [
            np.asarray(part.choice.candidates.arrived, dtype=np.int64)[part.choice.alone.get(reason, [])]
            for part in self.parts
        ]
        months = months_of(np.concatenate(arrived)).tolist()
        return f" ({_months(months)})" if months else ""

    def _arrived(self, label: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        of_class = [_column(part.choice, "arrived")[_column(part.choice, "label") == label] for part in self.parts]
        arrived = np.concatenate(of_class)
        return arrived[arrived > 0]

    def _describe_class(self, label: int) -> str:
        messages, users, senders = 0, dict[str, int](), set[int]()
        for part in self.parts:
            is_of_class = _column(part.choice, "label") == label
            messages += int(is_of_class.sum())
            senders |= set(_column(part.choice, "sender")[is_of_class].tolist())
            accounts, counts = np.unique(_column(part.choice, "account")[is_of_class], return_counts=True)
            for account, count in zip(accounts.tolist(), counts.tolist(), strict=True):
                users[part.choice.candidates.accounts[account].user] = count
        if not messages:
            return f"{LABELS[label]}: nothing"
        most = max(users, key=lambda user: users[user])
        arrived = self._arrived(label)
        span = f", from {_day(arrived.min())} to {_day(arrived.max())}" if len(arrived) else ""
        return (
            f"{LABELS[label]}: {messages} messages of {len(users)} accounts and {len(senders)} senders{span}; "
            f"most are of {most}: {users[most]}"
        )


def make_plan(
    source: MailSource,
    own_model_user: Callable[[str], str | None],
    per_account: int,
    advance: Callable[[int], object] = lambda _count: None,
) -> Plan:
    """Read what the choice needs of all mailboxes, and choose.

    ``own_model_user`` returns the user whose own model the messages of an account go into, None for the common
    one. ``advance`` is called with the number of accounts that were read meanwhile.
    """
    skips = Skips()
    candidates: dict[str | None, Candidates] = {None: Candidates()}
    for account in source.accounts(skips.add):
        of_model = candidates.setdefault(own_model_user(account.user), Candidates())
        of_model.add_account(account, _some_messages(source, account, skips))
        advance(1)
    parts = [PlanPart(user, choose(of_model, per_account)) for user, of_model in candidates.items()]
    accounts = sum(len(of_model.accounts) for of_model in candidates.values())
    return Plan(parts, accounts, per_account, skips)


def _some_messages(source: MailSource, account: Account, skips: Skips) -> Iterator[MailboxMessage]:
    with closing(cast("Generator[MailboxMessage]", source.messages(account, skips.add))) as messages:
        yield from itertools.islice(messages, _MAX_MESSAGES)
        if next(messages, None):
            skips.add(SkippedMail(account.location, _TOO_MANY))


def _column(choice: Choice, name: str) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return a column of the candidates, in the order of learning."""
    return np.asarray(getattr(choice.candidates, name), dtype=np.int64)[np.asarray(choice.order, dtype=np.int64)]


def _describe_balance(
    counts: dict[str, int], arrived: Sequence[np.ndarray[tuple[int], np.dtype[np.int64]]]
) -> Iterator[str]:
    """Yield what is to be known of the numbers and of the time of both classes."""
    for label, count in counts.items():
        if count < _FEW:
            amount = "little" if count else "no"
            yield f"balance: there is {amount} {label}; a model needs {_FEW} of each class"
    if not all(counts.values()):
        return
    yield f"balance: {counts['ham'] / counts['spam']:.1f} ham for one spam"
    if all(map(len, arrived)):
        middles = [float(np.median(of_class)) for of_class in arrived]
        if (days := abs(middles[0] - middles[1]) / _DAY) > 365:
            older = LABELS[int(middles[1] < middles[0])]
            yield f"balance: half of the {older} is {days / 365:.0f} years older than half of the other class"


def _months(months: Sequence[int]) -> str:
    """Return the first and the last of months, which are counted since the epoch; 0 stands for none."""
    known = [str(np.datetime64(month, "M")) for month in sorted(filter(None, months))]
    return " to ".join(dict.fromkeys((known[0], known[-1]))) if known else "at an unknown time"


def _day(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d")
