"""Which letters are learned, as what, in which order, and why the others are not.

Rules: pure.

- Junk is spam. Ham is the archive, what was read in folders that people sort into, and of the read inbox what was
  answered, by its flag or by a letter in Sent, or flagged. Nobody has judged the rest.
- What this filter has put into Junk is its own verdict: learned, it would confirm itself. It is left out, read or
  unread, since people open what they do not judge. Mail that a person moved there bears another verdict.
- What a person wrote is left out, wherever it lies: nobody sends it to us. So are letters whose keyword
  contradicts their folder, and messages that lie in both classes.
- Both classes are of the same months as far as there are both, else the calendar and the site's own server of that
  time become clues. A letter of a month without the other class is left out where ``ENOUGH`` of its class are of
  common months; where there are fewer, the months nearest to these are taken as well, as many as it needs. Where
  no month has both classes, nothing is gained, and all are learned. A month is that of ``Letter.arrived``, in UTC.
- A class has at most twice as many letters as the other one, but for ``BASE``. No account gives more of a class
  than ``per_account``. Where there are too many, accounts with most of them give fewer, and the newest letters are
  learned.
- Letters are learned in the order of time, both classes mixed evenly from the first to the last: a lesson weighs
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
from nbstream.training.letters import FolderRole, LetterFlags, LetterPlace

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from nbstream.training.letters import Account, Folder, Letter

LABELS = ("ham", "spam")
BASE = 500
"""So many letters of a class are learned even where there are few of the other one."""

ENOUGH = 1_000
"""With so many letters of a class, leaving out those of other months costs less than the calendar does."""

MAX_LETTER_BYTES = 50 << 20

_MAX_RATIO = 2


class LeftOut(StrEnum):
    """Why a letter is not learned."""

    TRASH = "in the trash"
    DRAFT = "drafts"
    OTHER = "in folders that nobody sorts into"
    SENT = "sent mail, and own letters in other folders"
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


def judge(letter: Letter, user: str, answered: set[int]) -> str | LeftOut:
    """Return the label that a letter of the account of ``user`` is learned with, or why it is not learned.

    ``answered`` are the hashes of the ids of messages that letters in Sent answer.
    """
    role, flags, header = letter.folder.role, letter.flags, letter.header
    if flags & LetterFlags.DELETED:
        return LeftOut.DELETED
    if (reason := _NEVER.get(role)) or flags & LetterFlags.DRAFT:
        return reason or LeftOut.DRAFT
    if letter.size > MAX_LETTER_BYTES:
        return LeftOut.TOO_LARGE
    if bool(flags & (LetterFlags.NOT_JUNK if role is FolderRole.JUNK else LetterFlags.JUNK)):
        return LeftOut.CONTRADICTED
    if role is FolderRole.JUNK:
        return LeftOut.OWN_VERDICT if header.is_own_spam else "spam"
    if header.sender and canonical_address(user) in {header.sender, header.sender.partition("@")[0]}:
        return LeftOut.SENT
    is_answered = bool(flags & LetterFlags.ANSWERED) or header.message_id in answered
    if role is FolderRole.ARCHIVE or flags & LetterFlags.FLAGGED or is_answered:
        return "ham"
    return _judge_unmarked(role, flags)


def _judge_unmarked(role: FolderRole, flags: LetterFlags) -> str | LeftOut:
    """Judge a letter of the inbox, or of a folder that people sort into, which nobody has answered or flagged."""
    if not flags & LetterFlags.SEEN:
        return LeftOut.UNREAD
    return "ham" if role is FolderRole.SORTED else LeftOut.INBOX


_NEVER = {
    FolderRole.TRASH: LeftOut.TRASH,
    FolderRole.DRAFTS: LeftOut.DRAFT,
    FolderRole.SENT: LeftOut.SENT,
    FolderRole.OTHER: LeftOut.OTHER,
}


@dataclass(slots=True)
class Candidates:
    """The letters that may be learned, in some 100 bytes each, and how many are left out already.

    A letter is one number in each of the arrays: its account, its folder in ``folders``, its class in ``LABELS``,
    when it arrived, what identifies the message, the hash of its sender, and where its locator ends in
    ``locators``.
    """

    accounts: list[Account] = field(default_factory=list)
    folders: list[Folder] = field(default_factory=list)
    left_out: Counter[LeftOut] = field(default_factory=Counter)
    locators: bytearray = field(default_factory=bytearray)
    account: array[int] = field(default_factory=lambda: array("I"))
    folder: array[int] = field(default_factory=lambda: array("I"))
    label: array[int] = field(default_factory=lambda: array("B"))
    arrived: array[int] = field(default_factory=lambda: array("q"))
    identity: array[int] = field(default_factory=lambda: array("q"))
    sender: array[int] = field(default_factory=lambda: array("q"))
    end: array[int] = field(default_factory=lambda: array("q"))

    def add_account(self, account: Account, letters: Iterator[Letter]) -> None:
        """Judge all letters of an account, which come as a ``MailSource`` yields them."""
        self.accounts.append(account)
        answered: set[int] = set()
        for letter in letters:
            if letter.folder.role is FolderRole.SENT and letter.header.answers:
                answered.add(letter.header.answers)
            judged = judge(letter, account.user, answered)
            if isinstance(judged, LeftOut):
                self.left_out[judged] += 1
            elif not letter.header.identity:
                self.left_out[LeftOut.NAMELESS] += 1
            else:
                self._add(letter, LABELS.index(judged))

    def _add(self, letter: Letter, label: int) -> None:
        if not self.folders or self.folders[-1] is not letter.folder:
            self.folders.append(letter.folder)
        self.account.append(len(self.accounts) - 1)
        self.folder.append(len(self.folders) - 1)
        self.label.append(label)
        self.arrived.append(max(0, letter.arrived))
        self.identity.append(letter.header.identity)
        self.sender.append(hash(letter.header.sender))
        self.locators += letter.locator
        self.end.append(len(self.locators))

    def place(self, letter: int, number: int) -> LetterPlace:
        """Return where a letter is; ``number`` is its place in the order of learning."""
        start = self.end[letter - 1] if letter else 0
        locator = bytes(self.locators[start : self.end[letter]])
        return LetterPlace(number, self.accounts[self.account[letter]], self.folders[self.folder[letter]], locator)


@dataclass(frozen=True, slots=True)
class Choice:
    """What is learned of ``candidates``: their numbers in the order of learning, and what is left out and why.

    ``alone`` are the numbers of those that are left out for their month.
    """

    candidates: Candidates
    order: Sequence[int]
    left_out: Counter[LeftOut]
    alone: Mapping[LeftOut, NDArray[np.int64]]

    def label(self, number: int) -> str:
        """Return the label of the letter at this place in the order."""
        return LABELS[self.candidates.label[self.order[number]]]

    def places(self, start: int, end: int) -> Sequence[LetterPlace]:
        """Return where the letters at these places of the order are."""
        return [self.candidates.place(self.order[number], number) for number in range(start, end)]


def choose(candidates: Candidates, per_account: int) -> Choice:
    """Choose what is learned, and in which order; see the rules above."""
    left_out = candidates.left_out.copy()
    columns = (candidates.label, candidates.account, candidates.arrived, candidates.identity)
    label, account, arrived, identity = (np.asarray(column, dtype=np.int64) for column in columns)
    chosen = np.argsort(arrived, kind="stable")
    chosen = _without_doubles(chosen, label, identity, left_out)
    by_class = [chosen[label[chosen] == class_number] for class_number in range(len(LABELS))]
    months = [months_of(arrived[letters]) for letters in by_class]
    is_near = [is_of_near_month(own, other) for own, other in zip(months, reversed(months), strict=True)]
    alone = {
        reason: letters[~near]
        for reason, letters, near in zip((LeftOut.HAM_ALONE, LeftOut.SPAM_ALONE), by_class, is_near, strict=True)
    }
    left_out.update({reason: len(letters) for reason, letters in alone.items()})
    of_near_months = [letters[near] for letters, near in zip(by_class, is_near, strict=True)]
    capped = [_newest(letters, account, per_account) for letters in of_near_months]
    left_out[LeftOut.CAPPED] += sum(map(len, of_near_months)) - sum(map(len, capped))
    balanced = [
        _balanced(letters, account, max(BASE, _MAX_RATIO * len(other)))
        for letters, other in zip(capped, reversed(capped), strict=True)
    ]
    left_out[LeftOut.UNBALANCED] += sum(map(len, capped)) - sum(map(len, balanced))
    return Choice(candidates, _mixed(balanced).tolist(), +left_out, alone)


def months_of(arrived: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the months of moments, which are in seconds since the epoch, in months since the epoch."""
    return arrived.astype("datetime64[s]").astype("datetime64[M]").astype(np.int64)


def is_of_near_month(months: NDArray[np.int64], others: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which letters of a class are of months common with the other class, or near enough; see the rules.

    ``months`` has the month of each of the letters, ``others`` that of each letter of the other class.
    """
    common = np.intersect1d(months, others)
    if not len(common):
        return np.ones(len(months), dtype=np.bool_)
    unique, inverse = np.unique(months, return_inverse=True)
    distance = np.abs(unique[:, np.newaxis] - common).min(axis=1)[inverse]
    is_near: NDArray[np.bool_] = distance <= np.sort(distance)[min(ENOUGH, len(distance)) - 1]
    return is_near


def _without_doubles(
    chosen: NDArray[np.int64], label: NDArray[np.int64], identity: NDArray[np.int64], left_out: Counter[LeftOut]
) -> NDArray[np.int64]:
    """Return the letters without messages that are in both classes, and without copies but the first one."""
    _, first, inverse = np.unique(identity[chosen], return_index=True, return_inverse=True)
    has_class = np.zeros((len(first), len(LABELS)), dtype=np.bool_)
    has_class[inverse, label[chosen]] = True
    is_both = (has_class[:, 0] & has_class[:, 1])[inverse]
    is_first = np.zeros(len(chosen), dtype=np.bool_)
    is_first[first] = True
    left_out[LeftOut.BOTH] += int(is_both.sum())
    left_out[LeftOut.COPY] += int((~is_first & ~is_both).sum())
    return chosen[is_first & ~is_both]


def _newest(letters: NDArray[np.int64], account: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Return the newest ``count`` letters of each account; they are in the order of time, before and after."""
    owners = account[letters]
    by_owner = np.argsort(owners, kind="stable")
    last = np.searchsorted(owners[by_owner], owners[by_owner], side="right") - 1
    is_new = last - np.arange(len(letters)) < count
    return letters[np.sort(by_owner[is_new])]


def _balanced(letters: NDArray[np.int64], account: NDArray[np.int64], limit: int) -> NDArray[np.int64]:
    """Return at most ``limit`` letters: the newest of each account, and the same number of all that have more."""
    if len(letters) <= limit:
        return letters
    counts = np.sort(np.bincount(account[letters]))[::-1]
    low, high = 0, int(counts[0])
    while low < high:  # the largest number that keeps the limit
        middle = (low + high + 1) // 2
        low, high = (middle, high) if np.minimum(counts, middle).sum() <= limit else (low, middle - 1)
    return _newest(letters, account, max(1, low))


def _mixed(by_class: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Return the letters of the classes, each in its order, so that each has had the same share at any time."""
    shares = np.concatenate([(np.arange(len(letters)) + 0.5) / max(1, len(letters)) for letters in by_class])
    return np.concatenate(list(by_class))[np.argsort(shares, kind="stable")]
