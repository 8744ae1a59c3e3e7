"""Which messages of a site are learned, as what, in which order, and why the others are not; and the plan of it.

Rules: pure, but for the mailboxes that a ``MailSource`` reads.

- Junk is spam. Ham is the archive, what was read in folders that people sort into, and of the read inbox what was
  answered, by its flag or by a message in Sent, or flagged. Nobody has judged the rest.
- What this filter has put into Junk is its own verdict: learned, it would confirm itself. It is left out, read or
  unread, since people open what they do not judge. Mail that a person moved there bears another verdict.
- What a person wrote is left out, wherever it lies: nobody sends it to us. So are messages whose keyword
  contradicts their folder, and messages that lie in both classes.
- A class has at most twice as many messages as the other one, but for ``BASE``, and no account gives more of a
  class than ``per_account``: the newest ones.
- Messages are learned in the order of time, both classes mixed evenly from the first to the last: a lesson weighs
  more, the more wrong the model was.
"""

from __future__ import annotations

import heapq
import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, cast

from nbstream.mail.addresses import canonical_address
from nbstream.training.messages import FolderRole, MessageFlags, MessagePlace, SkippedMail

if TYPE_CHECKING:
    from nbstream.training.messages import Account, MailboxMessage, MailSource

LABELS = ("ham", "spam")
BASE = 500
"""So many messages of a class are learned even where there are few of the other one."""

MAX_MESSAGE_BYTES = 50 << 20

_MAX_RATIO = 2


class Skipped(StrEnum):
    """Why a message is not learned."""

    TRASH = "in the trash"
    DRAFT = "drafts"
    OTHER = "in folders that nobody sorts into"
    SENT = "sent mail, and own messages in other folders"
    DELETED = "marked as deleted"
    UNREAD = "unread, outside of Junk and the archive"
    INBOX = "in the inbox, neither answered nor flagged"
    OWN_VERDICT = "in Junk by the verdict of this filter alone"
    CONTRADICTED = "in Junk but marked as no junk, or marked as junk elsewhere"
    TOO_LARGE = "larger than 50 MiB"
    NAMELESS = "without Message-ID, From, Date and Subject, which tell a message from others"
    BOTH = "the same message in both classes"
    COPY = "further copies of a message"
    CAPPED = "older ones of accounts with very many"
    UNBALANCED = "older ones of the class that has many more"


def judge(message: MailboxMessage, user: str, answered: set[int]) -> str | Skipped:
    """Return the label that a message of the account of ``user`` is learned with, or why it is not learned.

    ``answered`` are the hashes of the ids of messages that messages in Sent answer.
    """
    role, flags, header = message.folder.role, message.flags, message.header
    if flags & MessageFlags.DELETED:
        return Skipped.DELETED
    if (reason := _NEVER.get(role)) or flags & MessageFlags.DRAFT:
        return reason or Skipped.DRAFT
    if message.size > MAX_MESSAGE_BYTES:
        return Skipped.TOO_LARGE
    if bool(flags & (MessageFlags.NOT_JUNK if role is FolderRole.JUNK else MessageFlags.JUNK)):
        return Skipped.CONTRADICTED
    if role is FolderRole.JUNK:
        return Skipped.OWN_VERDICT if header.is_own_spam else "spam"
    if header.sender and canonical_address(user) in {header.sender, header.sender.partition("@")[0]}:
        return Skipped.SENT
    is_answered = bool(flags & MessageFlags.ANSWERED) or header.message_id in answered
    if role is FolderRole.ARCHIVE or flags & MessageFlags.FLAGGED or is_answered:
        return "ham"
    return _judge_unmarked(role, flags)


def _judge_unmarked(role: FolderRole, flags: MessageFlags) -> str | Skipped:
    """Judge a message of the inbox, or of a folder that people sort into, which nobody has answered or flagged."""
    if not flags & MessageFlags.SEEN:
        return Skipped.UNREAD
    return "ham" if role is FolderRole.SORTED else Skipped.INBOX


_NEVER = {
    FolderRole.TRASH: Skipped.TRASH,
    FolderRole.DRAFTS: Skipped.DRAFT,
    FolderRole.SENT: Skipped.SENT,
    FolderRole.OTHER: Skipped.OTHER,
}


@dataclass(slots=True)
class Candidates:
    """The messages of a site that may be learned, of each account at most ``per_account`` of a class, the newest.

    ``left_out`` counts the others.
    """

    per_account: int
    accounts: int = 0
    found: list[MessagePlace] = field(default_factory=list)
    left_out: Counter[Skipped] = field(default_factory=Counter)

    def add_account(self, account: Account, messages: Iterator[MailboxMessage]) -> None:
        """Judge all messages of an account, which come as a ``MailSource`` yields them."""
        self.accounts += 1
        answered: set[int] = set()
        of_class: dict[str, list[MessagePlace]] = {label: [] for label in LABELS}
        for message in messages:
            header = message.header
            if message.folder.role is FolderRole.SENT and header.answers:
                answered.add(header.answers)
            judged = judge(message, account.user, answered)
            if isinstance(judged, Skipped):
                self.left_out[judged] += 1
            elif not header.identity:
                self.left_out[Skipped.NAMELESS] += 1
            else:
                known = (judged, message.arrived, header.identity)
                of_class[judged].append(MessagePlace(account, message.folder, message.locator, *known))
        for found in of_class.values():
            newest = heapq.nlargest(self.per_account, found, key=lambda candidate: candidate.arrived)
            self.left_out[Skipped.CAPPED] += len(found) - len(newest)
            self.found += newest

    def choose(self) -> list[MessagePlace]:
        """Return what is learned, in the order of learning; see the rules above."""
        ordered = sorted(self.found, key=lambda candidate: candidate.arrived)
        labels: defaultdict[int, set[str]] = defaultdict(set)
        for candidate in ordered:
            labels[candidate.identity].add(candidate.label)
        of_class: dict[str, list[MessagePlace]] = {label: [] for label in LABELS}
        seen: set[int] = set()
        for candidate in ordered:
            if len(labels[candidate.identity]) > 1:
                self.left_out[Skipped.BOTH] += 1
            elif candidate.identity in seen:
                self.left_out[Skipped.COPY] += 1
            else:
                seen.add(candidate.identity)
                of_class[candidate.label].append(candidate)
        limit = max(BASE, _MAX_RATIO * min(map(len, of_class.values())))
        shares: list[tuple[float, MessagePlace]] = []
        for found in of_class.values():
            self.left_out[Skipped.UNBALANCED] += max(0, len(found) - limit)
            newest = found[-limit:]
            shares += [((number + 0.5) / len(newest), candidate) for number, candidate in enumerate(newest)]
        shares.sort(key=lambda share: share[0])
        return [candidate for _, candidate in shares]


# The plan: the choice in numbers and words, before anything is learned.

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

    chosen: Sequence[MessagePlace]
    accounts: int
    per_account: int
    left_out: Counter[Skipped]
    skips: Skips

    def slices(self) -> Iterator[Sequence[MessagePlace]]:
        """Yield where the messages of each slice are."""
        edges = [len(self.chosen) * i // SLICES for i in range(SLICES + 1)]
        for start, end in itertools.pairwise(edges):
            yield self.chosen[start:end]

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


def _describe_class(label: str, chosen: Sequence[MessagePlace]) -> str:
    if not chosen:
        return f"{label}: nothing; a model needs {_FEW} of each class"
    accounts = len({candidate.account for candidate in chosen})
    arrived = [candidate.arrived for candidate in chosen if candidate.arrived > 0]
    span = f", from {_day(min(arrived))} to {_day(max(arrived))}" if arrived else ""
    few = f"; a model needs {_FEW} of each class" if len(chosen) < _FEW else ""
    messages = f"{len(chosen)} message{'s' * (len(chosen) > 1)} of {accounts} account{'s' * (accounts > 1)}"
    return f"{label}: {messages}{span}{few}"


def _day(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d")
