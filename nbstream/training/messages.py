"""Accounts, folders and messages: what is known of a message before it is learned.

Rules: pure. A message is what its folder and its header say; the message itself is read when it is learned. What
is kept of all messages of a site is numbers, since there may be millions of them: a message id is a hash of 63
bits.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from email.utils import mktime_tz, parsedate_tz
from enum import Flag, StrEnum, auto
from typing import Protocol, TypeAlias

from nbstream.errors import InputError
from nbstream.mail import header_fields
from nbstream.mail.addresses import find_addresses
from nbstream.mail.header_fields import MAX_HEADER_BYTES
from nbstream.mail.lines import normalize_line_ends

HEADER_FIELDS = ("From", "Date", "Subject", "Message-ID", "In-Reply-To", "Received")
"""The fields that ``read_header`` looks at, beside the field that this filter itself writes."""

MAX_FOLDERS = 2_000
"""So many folders of an account are looked at."""

MAX_MESSAGES = 20_000
"""So many messages of a folder are looked at: the newest, and of an mbox the last."""

TOO_MANY_MESSAGES = f"has more than {MAX_MESSAGES:,} messages: older ones are left out"
EMPTY_MESSAGE = "has an empty message"


class FolderRole(StrEnum):
    """What people use a folder for. ``SORTED`` is any folder that they have made; nobody sorts into ``OTHER``."""

    INBOX = "inbox"
    JUNK = "junk"
    SENT = "sent"
    TRASH = "trash"
    DRAFTS = "drafts"
    ARCHIVE = "archive"
    SORTED = "sorted"
    OTHER = "other"


class MessageFlags(Flag):
    """The flags of a message, by the names of IMAP; the last two are the keywords ``$Junk`` and ``$NotJunk``."""

    NONE = 0
    SEEN = auto()
    ANSWERED = auto()
    FLAGGED = auto()
    DELETED = auto()
    DRAFT = auto()
    JUNK = auto()
    NOT_JUNK = auto()


@dataclass(frozen=True, slots=True)
class Account:
    """The mailboxes of one user: ``location`` is a path, or the URL of an IMAP account."""

    user: str
    location: str


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder by its name as people write it, with ``/`` between its levels; its source knows it by ``place``."""

    name: str
    role: FolderRole
    place: str = ""


@dataclass(frozen=True, slots=True)
class MessageHeader:
    """What the header of a message says.

    ``identity`` is the same for copies of a message, ``message_id`` and ``answers`` (the message that this one
    answers) are hashes; 0 stands for none. ``sender`` is an address in lower case. ``received`` is when the last
    server got it, in seconds since the epoch, by the topmost Received, or by Date where nobody has received it;
    None where neither says it. ``is_own_spam``: this filter has called it spam.
    """

    identity: int = 0
    message_id: int = 0
    answers: int = 0
    sender: str = ""
    received: int | None = None
    is_own_spam: bool = False


@dataclass(frozen=True, slots=True)
class MailboxMessage:
    """A message of a folder, before it is read as a whole.

    ``locator`` is what its source finds it by, in some 60 bytes at most. ``arrived`` is in seconds since the
    epoch: ``received`` of the header, whose topmost Received the user's own server has written, and which stays
    when mailboxes are copied; else the time of the file in a Maildir, or INTERNALDATE; 0 where nothing says it.
    ``size`` is in bytes. The header is an empty one where ``needs_header`` is false.
    """

    folder: Folder
    locator: bytes
    flags: MessageFlags
    arrived: int
    size: int
    header: MessageHeader = MessageHeader()


@dataclass(frozen=True, slots=True)
class MessagePlace:
    """Where a message is, and what the choice needs of it: its label, and its ``identity``, as copies have it."""

    account: Account
    folder: Folder
    locator: bytes
    label: str = ""
    arrived: int = 0
    identity: int = 0

    def __str__(self) -> str:
        return f"{self.account.user}: {self.folder.name}"


class SkippedMail(InputError):
    """An account, a folder or a message that is left out: ``place`` names it, ``why`` is one of few sentences."""

    def __init__(self, place: str, why: str) -> None:
        super().__init__(place, why)
        self.place = place
        self.why = why

    def __str__(self) -> str:
        return f"{self.place}: {self.why}"


Skip: TypeAlias = Callable[[SkippedMail], object]
"""Takes what a source leaves out."""

SkipReason: TypeAlias = Callable[[str], object]
"""Takes why something of a folder is left out."""


class MailSource(Protocol):
    """Where the mailboxes of a site are: files of this machine, or an IMAP server."""

    def accounts(self, skip: Skip) -> Iterator[Account]:
        """Yield the accounts."""

    def messages(self, account: Account, skip: Skip) -> Iterator[MailboxMessage]:
        """Yield the messages of an account, those of the folders for sent mail first, those of Junk next.

        Nothing is changed in the mailboxes, and no connection stays open after the last message.
        """

    def read(self, places: Sequence[MessagePlace], skip: Skip) -> Iterator[tuple[MessagePlace, bytes]]:
        """Yield place and bytes of each of these messages, if it is still there; one message is in memory.

        They come in the given order, or account by account where it costs much to change the account. It is
        called in a process of its own.
        """


def needs_header(role: FolderRole, flags: MessageFlags) -> bool:
    """Return whether the choice looks at the header of such a message; those of an unread inbox stay unread."""
    if role in {FolderRole.TRASH, FolderRole.DRAFTS, FolderRole.OTHER} or flags & MessageFlags.DELETED:
        return False
    return role is not FolderRole.INBOX or bool(flags & MessageFlags.SEEN)


def keyword_flags(keywords: Iterable[str]) -> MessageFlags:
    """Return the flags that the keywords of a message stand for: ``$Junk`` and its like in mail programs."""
    flags = MessageFlags.NONE
    for keyword in keywords:
        flags |= _KEYWORDS.get(keyword.strip().lower().lstrip("$"), MessageFlags.NONE)
    return flags


_KEYWORDS = {"junk": MessageFlags.JUNK, "notjunk": MessageFlags.NOT_JUNK, "nonjunk": MessageFlags.NOT_JUNK}


def reading_order(folder: Folder) -> tuple[int, str]:
    """Return the key to sort the folders of an account by: what was sent says which messages were answered."""
    first = {FolderRole.SENT: 0, FolderRole.JUNK: 1}
    return first.get(folder.role, 2), folder.name


def read_header(raw: bytes, own_field: str | None) -> MessageHeader:
    """Return what the choice needs of a header: the beginning of a message, with line ends of any kind.

    ``own_field`` is the name of the field that this filter writes its verdict into, None where it files no mail.
    """
    content = normalize_line_ends(raw[:MAX_HEADER_BYTES])
    end = header_fields.body_offset(content)

    def value(name: str) -> bytes:
        field = header_fields.find_field(content, end, name.lower())
        return b" ".join(field.value.split()) if field else b""

    message_id, sender = value("Message-ID"), value("From")
    return MessageHeader(
        identity=_hash(message_id or b" ".join((sender, value("Date"), value("Subject"))).strip()),
        message_id=_hash(message_id),
        answers=_hash(value("In-Reply-To").partition(b" ")[0]),
        sender=next(iter(find_addresses([sender])), ""),
        received=_moment(value("Received").rpartition(b";")[2]) or _moment(value("Date")),
        is_own_spam=own_field is not None and value(own_field).lower().startswith(b"spam;"),
    )


def _hash(text: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") >> 1 if text else 0


def _moment(text: bytes) -> int | None:
    """Return the time in a field, None where there is none that a mailbox can be as old as."""
    try:
        fields = parsedate_tz(text.decode("ascii", "replace"))
        seconds = mktime_tz(fields) if fields else 0
    except (ValueError, OverflowError, TypeError, IndexError):
        return None
    return seconds if 0 < seconds < 1 << 32 else None
