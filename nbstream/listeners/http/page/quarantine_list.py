"""The list of the quarantine: filtered by addresses, ordered by time or by P(spam), a page at a time.

Rules: of all messages only the names of their files are known. What needs more opens the files of ``MAX_READ``
messages at most, the newest first, and says how far it came. A message that came often has many files: the last
``MAX_COPIES`` of them are opened.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from nbstream.delivery import quarantine
from nbstream.errors import InputError
from nbstream.store.recent.message_rows import address_matches

if TYPE_CHECKING:
    from nbstream.delivery.quarantine import QuarantinedMessage, QuarantineNote

MAX_READ = 2000
"""The most messages whose files are opened for one page."""

MAX_COPIES = 20
"""The most files of one message that are opened for a list or shown; a sender chooses how often it comes."""

_MAX_TIME_DIGITS = 12  # as in the names of files
_UNREADABLE = 2.0  # in place of P(spam), of which it is more than any: such files come last


@dataclass(frozen=True, slots=True)
class QuarantinedMail:
    """All files of one message, the oldest first."""

    id: str
    files: Sequence[QuarantinedMessage]

    @property
    def at(self) -> float:
        """When it came last, in seconds since the epoch."""
        return self.files[-1].at

    @property
    def in_doubt(self) -> bool:
        """Whether one of the files may have been delivered already."""
        return any(file.in_doubt for file in self.files)


class MailOrder(StrEnum):
    """The order of the list; that of P(spam) begins with the lowest, where false positives are."""

    NEWEST = "newest"
    LEAST_SPAM = "least-spam"


@dataclass(frozen=True, slots=True)
class MailQuery:
    """What is wanted of the list; addresses as ``normalize_address`` returns them, empty for any.

    ``cursor`` is the ``next_cursor`` of the page before, in the same order; anything else is the beginning.
    """

    sender: str = ""
    recipient: str = ""
    order: MailOrder = MailOrder.NEWEST
    cursor: str = ""

    @property
    def is_filtered(self) -> bool:
        """Whether not all messages are wanted."""
        return bool(self.sender or self.recipient)

    def matches(self, notes: Sequence[QuarantineNote]) -> bool:
        """Return whether a message with these notes is wanted."""
        return any(self._matches_note(note) for note in notes) or not self.is_filtered

    def _matches_note(self, note: QuarantineNote) -> bool:
        if self.sender and not address_matches(note.envelope.sender.address, self.sender):
            return False
        recipients = note.envelope.recipients
        return not self.recipient or any(address_matches(each.address, self.recipient) for each in recipients)


@dataclass(frozen=True, slots=True)
class MailPage:
    """Some messages of the quarantine in the order of the query, of ``total`` that wait.

    ``next_cursor`` is empty where no others follow. ``read_to`` is the time of the oldest message that was looked
    at, None where all were that may be wanted.
    """

    mails: Sequence[QuarantinedMail]
    total: int
    next_cursor: str
    read_to: float | None = None


def find_page(mails: Collection[QuarantinedMail], query: MailQuery, count: int) -> MailPage:
    """Return ``count`` messages at most. It opens files."""
    if query.order is MailOrder.LEAST_SPAM:
        return _page_by_probability(mails, query, count)
    below = _read_time_cursor(query.cursor)
    older = mails if below is None else [mail for mail in mails if (mail.at, mail.id) < below]
    most = MAX_READ if query.is_filtered else count
    newest = heapq.nlargest(most + 1, older, key=lambda mail: (mail.at, mail.id))
    found: list[QuarantinedMail] = []
    for mail in newest[:most]:
        if query.is_filtered and not query.matches(_read_notes(mail.files[-MAX_COPIES:])):
            continue
        if len(found) == count:
            return MailPage(found, len(mails), _time_cursor(found[-1]))
        found.append(mail)
    if len(newest) <= most:
        return MailPage(found, len(mails), "")
    read_to = newest[most - 1]
    return MailPage(found, len(mails), _time_cursor(read_to), read_to.at if query.is_filtered else None)


def find_until(
    mails: Collection[QuarantinedMail], query: MailQuery, until: str
) -> tuple[Sequence[QuarantinedMail], str]:
    """Return the newest messages that ``query`` finds, ``MAX_READ`` at most, and the place of the newest of them.

    With such a place as ``until`` none that came later is found. It opens files.
    """
    newest = _read_time_cursor(until)
    known = mails if newest is None else [mail for mail in mails if (mail.at, mail.id) <= newest]
    found = find_page(known, replace(query, order=MailOrder.NEWEST, cursor=""), MAX_READ).mails
    return found, _time_cursor(found[0]) if found else ""


def _page_by_probability(mails: Collection[QuarantinedMail], query: MailQuery, count: int) -> MailPage:
    newest = heapq.nlargest(MAX_READ, mails, key=lambda mail: (mail.at, mail.id))
    ranked = []
    above = _read_probability_cursor(query.cursor)
    for mail in newest:
        notes = _read_notes(mail.files[-MAX_COPIES if query.is_filtered else -1 :])
        place = notes[-1].probability if notes else _UNREADABLE, -mail.at, mail.id
        if query.matches(notes) and (above is None or place > above):
            ranked.append((place, mail))
    first = heapq.nsmallest(count + 1, ranked)
    found = [mail for _, mail in first[:count]]
    following = "_".join(map(str, first[count - 1][0])) if len(first) > count else ""
    return MailPage(found, len(mails), following, newest[-1].at if len(mails) > MAX_READ else None)


def _read_notes(files: Sequence[QuarantinedMessage]) -> list[QuarantineNote]:
    """Return the notes of those files that can be read."""
    notes = []
    for file in files:
        with suppress(InputError):
            notes.append(quarantine.read_note(file))
    return notes


def _time_cursor(mail: QuarantinedMail) -> str:
    return f"{mail.at:.0f}-{mail.id}"


def _read_time_cursor(cursor: str) -> tuple[float, str] | None:
    at, _, message_id = cursor.partition("-")
    return (float(at), message_id) if at.isascii() and at.isdigit() and len(at) <= _MAX_TIME_DIGITS else None


def _read_probability_cursor(cursor: str) -> tuple[float, float, str] | None:
    try:
        probability, negative_at, message_id = cursor.split("_")
        place = float(probability), float(negative_at), message_id
    except ValueError:
        return None
    return place if math.isfinite(place[0]) and math.isfinite(place[1]) else None
