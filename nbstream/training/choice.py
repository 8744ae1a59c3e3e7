"""Which messages are learned, as what, in which order, and why the others are not.

Rules: pure.

- Junk is spam. Ham is the archive, what was read in folders that people sort into, and of the read inbox what was
  answered, by its flag or by a message in Sent, or flagged. Nobody has judged the rest.
- What this filter has put into Junk is its own verdict: learned, it would confirm itself. It is left out, read or
  unread, since people open what they do not judge. Mail that a person moved there bears another verdict.
- What a person wrote is left out, wherever it lies: nobody sends it to us. So are messages whose keyword
  contradicts their folder, and messages that lie in both classes.
- Both classes are of the same months as far as there are both, else the calendar and the site's own server of that
  time become clues. A message of a month without the other class is left out where ``ENOUGH`` of its class are of
  common months; where there are fewer, the months nearest to these are taken as well, as many as it needs. Where
  no month has both classes, nothing is gained, and all are learned. A month is that of ``MailboxMessage.arrived``,
  in UTC.
- A class has at most twice as many messages as the other one, but for ``BASE``. No account gives more of a class
  than ``per_account``. Where there are too many, accounts with most of them give fewer, and the newest messages
  are learned.
- Messages are learned in the order of time, both classes mixed evenly from the first to the last: a lesson weighs
  more, the more wrong the model was.
"""

from __future__ import annotations

from array import array
from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np

from nbstream.mail.addresses import canonical_address
from nbstream.training.messages import FolderRole, MessageFlags, MessagePlace

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from nbstream.training.messages import Account, Folder, MailboxMessage

LABELS = ("ham", "spam")
BASE = 500
"""So many messages of a class are learned even where there are few of the other one."""

ENOUGH = 1_000
"""With so many messages of a class, leaving out those of other months costs less than the calendar does."""

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
    HAM_ALONE = "ham of months without spam"
    SPAM_ALONE = "spam of months without ham"


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
    """The messages that may be learned, in some 100 bytes each, and how many are left out already.

    A message is one number in each of the arrays: its account, its folder in ``folders``, its class in ``LABELS``,
    when it arrived, what identifies the message, the hash of its sender, and where its locator ends in
    ``locators``.
    """

    accounts: list[Account] = field(default_factory=list)
    folders: list[Folder] = field(default_factory=list)
    left_out: Counter[Skipped] = field(default_factory=Counter)
    locators: bytearray = field(default_factory=bytearray)
    account: array[int] = field(default_factory=lambda: array("I"))
    folder: array[int] = field(default_factory=lambda: array("I"))
    label: array[int] = field(default_factory=lambda: array("B"))
    arrived: array[int] = field(default_factory=lambda: array("q"))
    identity: array[int] = field(default_factory=lambda: array("q"))
    sender: array[int] = field(default_factory=lambda: array("q"))
    end: array[int] = field(default_factory=lambda: array("q"))

    def add_account(self, account: Account, messages: Iterator[MailboxMessage]) -> None:
        """Judge all messages of an account, which come as a ``MailSource`` yields them."""
        self.accounts.append(account)
        answered: set[int] = set()
        for message in messages:
            if message.folder.role is FolderRole.SENT and message.header.answers:
                answered.add(message.header.answers)
            judged = judge(message, account.user, answered)
            if isinstance(judged, Skipped):
                self.left_out[judged] += 1
            elif not message.header.identity:
                self.left_out[Skipped.NAMELESS] += 1
            else:
                self._add(message, LABELS.index(judged))

    def _add(self, message: MailboxMessage, label: int) -> None:
        if not self.folders or self.folders[-1] is not message.folder:
            self.folders.append(message.folder)
        self.account.append(len(self.accounts) - 1)
        self.folder.append(len(self.folders) - 1)
        self.label.append(label)
        self.arrived.append(max(0, message.arrived))
        self.identity.append(message.header.identity)
        self.sender.append(hash(message.header.sender))
        self.locators += message.locator
        self.end.append(len(self.locators))

    def place(self, message: int, number: int) -> MessagePlace:
        """Return where a message is; ``number`` is its place in the order of learning."""
        start = self.end[message - 1] if message else 0
        locator = bytes(self.locators[start : self.end[message]])
        return MessagePlace(
            number, self.accounts[self.account[message]], self.folders[self.folder[message]], locator
        )


@dataclass(frozen=True, slots=True)
class Choice:
    """What is learned of ``candidates``: their numbers in the order of learning, and what is left out and why.

    ``alone`` are the numbers of those that are left out for their month.
    """

    candidates: Candidates
    order: Sequence[int]
    left_out: Counter[Skipped]
    alone: Mapping[Skipped, NDArray[np.int64]]

    def label(self, number: int) -> str:
        """Return the label of the message at this place in the order."""
        return LABELS[self.candidates.label[self.order[number]]]

    def places(self, start: int, end: int) -> Sequence[MessagePlace]:
        """Return where the messages at these places of the order are."""
        return [self.candidates.place(self.order[number], number) for number in range(start, end)]


def choose(candidates: Candidates, per_account: int) -> Choice:
    """Choose what is learned, and in which order; see the rules above."""
    left_out = candidates.left_out.copy()
    columns = (candidates.label, candidates.account, candidates.arrived, candidates.identity)
    label, account, arrived, identity = (np.asarray(column, dtype=np.int64) for column in columns)
    chosen = np.argsort(arrived, kind="stable")
    chosen = _without_doubles(chosen, label, identity, left_out)
    by_class = [chosen[label[chosen] == class_number] for class_number in range(len(LABELS))]
    months = [months_of(arrived[messages]) for messages in by_class]
    is_near = [is_of_near_month(own, other) for own, other in zip(months, reversed(months), strict=True)]
    alone = {
        reason: messages[~near]
        for reason, messages, near in zip((Skipped.HAM_ALONE, Skipped.SPAM_ALONE), by_class, is_near, strict=True)
    }
    left_out.update({reason: len(messages) for reason, messages in alone.items()})
    of_near_months = [messages[near] for messages, near in zip(by_class, is_near, strict=True)]
    capped = [_newest(messages, account, per_account) for messages in of_near_months]
    left_out[Skipped.CAPPED] += sum(map(len, of_near_months)) - sum(map(len, capped))
    balanced = [
        _balanced(messages, account, max(BASE, _MAX_RATIO * len(other)))
        for messages, other in zip(capped, reversed(capped), strict=True)
    ]
    left_out[Skipped.UNBALANCED] += sum(map(len, capped)) - sum(map(len, balanced))
    return Choice(candidates, _mixed(balanced).tolist(), +left_out, alone)


def months_of(arrived: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the months of moments, which are in seconds since the epoch, in months since the epoch."""
    return arrived.astype("datetime64[s]").astype("datetime64[M]").astype(np.int64)


def is_of_near_month(months: NDArray[np.int64], others: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which messages of a class are of months common with the other class, or near enough; see the rules.

    ``months`` has the month of each of the messages, ``others`` that of each message of the other class.
    """
    common = np.intersect1d(months, others)
    if not len(common):
        return np.ones(len(months), dtype=np.bool_)
    unique, inverse = np.unique(months, return_inverse=True)
    distance = np.abs(unique[:, np.newaxis] - common).min(axis=1)[inverse]
    is_near: NDArray[np.bool_] = distance <= np.sort(distance)[min(ENOUGH, len(distance)) - 1]
    return is_near


def _without_doubles(
    chosen: NDArray[np.int64], label: NDArray[np.int64], identity: NDArray[np.int64], left_out: Counter[Skipped]
) -> NDArray[np.int64]:
    """Return the messages without messages that are in both classes, and without copies but the first one."""
    _, first, inverse = np.unique(identity[chosen], return_index=True, return_inverse=True)
    has_class = np.zeros((len(first), len(LABELS)), dtype=np.bool_)
    has_class[inverse, label[chosen]] = True
    is_both = (has_class[:, 0] & has_class[:, 1])[inverse]
    is_first = np.zeros(len(chosen), dtype=np.bool_)
    is_first[first] = True
    left_out[Skipped.BOTH] += int(is_both.sum())
    left_out[Skipped.COPY] += int((~is_first & ~is_both).sum())
    return chosen[is_first & ~is_both]


def _newest(messages: NDArray[np.int64], account: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Return the newest ``count`` messages of each account; they are in the order of time, before and after."""
    owners = account[messages]
    by_owner = np.argsort(owners, kind="stable")
    last = np.searchsorted(owners[by_owner], owners[by_owner], side="right") - 1
    is_new = last - np.arange(len(messages)) < count
    return messages[np.sort(by_owner[is_new])]


def _balanced(messages: NDArray[np.int64], account: NDArray[np.int64], limit: int) -> NDArray[np.int64]:
    """Return at most ``limit`` messages: the newest of each account, and the same number of all that have more."""
    if len(messages) <= limit:
        return messages
    counts = np.sort(np.bincount(account[messages]))[::-1]
    low, high = 0, int(counts[0])
    while low < high:  # the largest number that keeps the limit
        middle = (low + high + 1) // 2
        low, high = (middle, high) if np.minimum(counts, middle).sum() <= limit else (low, middle - 1)
    return _newest(messages, account, max(1, low))


def _mixed(by_class: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Return the messages of the classes, each in its order, so that each has had the same share at any time."""
    shares = np.concatenate([(np.arange(len(messages)) + 0.5) / max(1, len(messages)) for messages in by_class])
    return np.concatenate(list(by_class))[np.argsort(shares, kind="stable")]
