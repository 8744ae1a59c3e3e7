"""Mailboxes in files of this machine: Maildir++, and Maildirs within Maildirs.

Rules: no link is followed below the root of the template. Nothing is written. A number of accounts and of folders
is looked at.
"""

from __future__ import annotations

import errno
import heapq
import itertools
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from nbstream.training.folder_roles import decode_folder_name, folder_role
from nbstream.training.messages import (
    EMPTY_MESSAGE,
    MAX_FOLDERS,
    MAX_MESSAGES,
    TOO_MANY_MESSAGES,
    Account,
    Folder,
    MailboxMessage,
    MessageFlags,
    MessageHeader,
    SkippedMail,
    keyword_flags,
    needs_header,
    read_header,
    reading_order,
)
from nbstream.training.opening import (
    GONE,
    NO_FILE,
    Unreadable,
    exists,
    is_folder,
    opened_at,
    opened_below,
    read_all,
    skip_reason,
)

if TYPE_CHECKING:
    from nbstream.training.messages import MessagePlace, Skip, SkipReason
    from nbstream.training.template import PathTemplate

MAX_ACCOUNTS = 100_000
"""So many accounts are looked at."""

_MAX_LEVELS = 10
_OF_MAILDIR = ("cur", "new", "tmp")
_DBOX = "is of Dovecot's dbox, which Dovecot alone reads: read the mailboxes over IMAP"
_MBOX = "is a file, and no Maildir: read an mbox over IMAP, or by its path"
_TOO_MANY_ACCOUNTS = f"has more than {MAX_ACCOUNTS:,} accounts: the rest is left out"
_TOO_MANY_FOLDERS = f"has more than {MAX_FOLDERS:,} folders, or {_MAX_LEVELS} levels of them: the rest is left out"

_HEADER_BYTES = 16 << 10  # few headers are longer
_MAX_KEYWORDS_BYTES = 64 << 10
_SUBFOLDERS = ("cur", "new")
_COMPRESSED_STARTS = (b"\x1f\x8b", b"BZh", b"(\xb5/\xfd", b"\xfd7zXZ")
_COMPRESSED = "is compressed by the mail server: read the mailboxes over IMAP"
_FLAGS = {
    "S": MessageFlags.SEEN,
    "R": MessageFlags.ANSWERED,
    "F": MessageFlags.FLAGGED,
    "T": MessageFlags.DELETED,
    "D": MessageFlags.DRAFT,
}

_Names: TypeAlias = tuple[str, ...]


class MailboxFiles:
    """The mailboxes that a template of paths leads to, a ``MailSource``.

    ``users`` are those who consent; None stands for all whose mailboxes are found. ``own_field`` is the field that
    this filter writes its verdict into.
    """

    def __init__(self, template: PathTemplate, users: Sequence[str] | None, own_field: str | None) -> None:
        self._template = template
        self._users = users
        self._own_field = own_field

    def accounts(self, skip: Skip) -> Iterator[Account]:
        """Yield the accounts that have mailboxes, those of ``users`` in their order."""
        found = self._all(skip) if self._users is None else self._named(self._users, skip)
        for number, (user, names) in enumerate(found):
            if number == MAX_ACCOUNTS:
                skip(SkippedMail(str(self._template.root), _TOO_MANY_ACCOUNTS))
                return
            yield Account(user, self._path(names))

    def _named(self, users: Iterable[str], skip: Skip) -> Iterator[tuple[str, _Names]]:
        for user in users:
            names = self._template.names_of(user)
            with self._reported(names, skip), self._opened(names[:-1]) as folder:
                if exists(names[-1], folder):
                    yield user, names
                else:
                    self._skip(skip, names, GONE)

    def _all(self, skip: Skip) -> Iterator[tuple[str, _Names]]:
        """Yield the users that have names by the template, with these."""
        found: Iterable[_Names] = [()]
        for position in range(len(self._template.segments)):
            found = list(itertools.islice(self._below(position, found, skip), MAX_ACCOUNTS + 1))
        for names in found:
            if (user := self._template.user_at(names)) is not None:
                yield user, names

    def _below(self, position: int, found: Iterable[_Names], skip: Skip) -> Iterator[_Names]:
        for names in found:
            with self._reported(names, skip), self._opened(names) as folder:
                for name in sorted(os.listdir(folder)):  # noqa: PTH208 - a descriptor has no path
                    if self._template.matches(position, name):
                        yield (*names, name)

    def messages(self, account: Account, skip: Skip) -> Iterator[MailboxMessage]:
        """Yield the messages of an account; see ``MailSource``."""
        root = self._names(account)
        for folder in sorted(self._folders(root, skip), key=reading_order):
            names = (*root, *_split(folder.place))
            with self._reported(names, skip), self._opened(names) as opened:
                yield from _messages(folder, opened, self._own_field, partial(self._skip, skip, names))

    def read(self, places: Sequence[MessagePlace], skip: Skip) -> Iterator[tuple[MessagePlace, bytes]]:
        """Yield the messages at these places in their order; see ``MailSource``."""
        for place in places:
            names = (*self._names(place.account), *_split(place.folder.place))
            with self._reported(names, skip), self._opened(names) as opened:
                raw = _read_message(opened, place.locator)
                if raw.strip():
                    yield place, raw
                else:
                    self._skip(skip, names, EMPTY_MESSAGE)

    def _folders(self, root: _Names, skip: Skip) -> Iterator[Folder]:
        """Yield the folders of the account whose mailboxes begin at ``root``."""
        waiting: list[tuple[_Names, _Names]] = [((), ())]
        room = MAX_FOLDERS
        while waiting:
            names, levels = waiting.pop()
            with self._reported((*root, *names), skip), self._opened((*root, *names)) as opened:
                if not is_folder(opened):
                    self._skip(skip, root, _MBOX)
                    continue
                if is_mailbox := exists("cur", opened):
                    name = "/".join(levels) or "INBOX"
                    yield Folder(name, folder_role(name), "/".join(names))
                if exists("dbox-Mails", opened):
                    self._skip(skip, root, _DBOX)
                    continue
                if names and names[-1].startswith(".") and not is_mailbox:
                    continue
                below = heapq.nsmallest(room + 1, _names_below(opened, is_mailbox, is_root=not names))
                if len(below) > room or (below and len(names) >= _MAX_LEVELS):
                    self._skip(skip, root, _TOO_MANY_FOLDERS)
                    below = below[:room] if len(names) < _MAX_LEVELS else []
                room -= len(below)
                waiting += [((*names, name), (*levels, *_levels(name))) for name in below]

    def _names(self, account: Account) -> _Names:
        return Path(account.location).relative_to(self._template.root).parts

    def _path(self, names: _Names) -> str:
        return str(self._template.root.joinpath(*names))

    def _skip(self, skip: Skip, names: _Names, why: str) -> None:
        skip(SkippedMail(self._path(names), why))

    def _opened(self, names: _Names) -> AbstractContextManager[int]:
        return opened_at(str(self._template.root), names)

    @contextmanager
    def _reported(self, names: _Names, skip: Skip) -> Iterator[None]:
        """End the block where something cannot be opened or read, which is a reason to skip it."""
        try:
            yield
        except OSError as error:
            self._skip(skip, names, skip_reason(error))


def _split(place: str) -> _Names:
    return tuple(place.split("/")) if place else ()


def _names_below(folder: int, is_maildir: bool, *, is_root: bool) -> Iterator[str]:
    """Yield the names of folders; those that are hidden at the root alone, as in Maildir++."""
    with os.scandir(folder) as entries:
        for entry in entries:
            is_own = is_maildir and entry.name in _OF_MAILDIR
            is_hidden = entry.name.startswith(".") and not is_root
            if entry.is_dir(follow_symlinks=False) and not is_own and not is_hidden:
                yield entry.name


def _levels(name: str) -> Sequence[str]:
    """Return the levels of a folder by its name on the disk: those of Maildir++ have dots between them."""
    levels = name[1:].split(".") if name.startswith(".") else [name]
    return [decode_folder_name(os.fsencode(level)) for level in levels]


# The messages of one Maildir: a file for each, with its flags behind its unique name. A message is followed where
# its flags have changed its name. Of a folder the newest messages are looked at, by the time of their files, which
# mail servers set to when a message came in.


def _messages(folder: Folder, opened: int, own_field: str | None, skip: SkipReason) -> Iterator[MailboxMessage]:
    """Yield the newest messages of a folder that was opened. Raises ``OSError``."""
    keywords = _read_keywords(opened)
    newest = heapq.nlargest(MAX_MESSAGES + 1, _files(opened, skip), key=itemgetter(0))
    if len(newest) > MAX_MESSAGES:
        skip(TOO_MANY_MESSAGES)
    for arrived, size, name in newest[:MAX_MESSAGES]:
        flags, header = _flags(name, keywords), MessageHeader()
        if needs_header(folder.role, flags):
            try:
                header = read_header(_read_start(opened, name), own_field)
            except OSError as error:
                skip(skip_reason(error))
                continue
        yield MailboxMessage(folder, os.fsencode(name), flags, header.received or arrived, size, header)


def _files(opened: int, skip: SkipReason) -> Iterator[tuple[int, int, str]]:
    """Yield when each message was written, in seconds since the epoch, its size in bytes, and its name."""
    for subfolder in _SUBFOLDERS:
        try:
            with opened_below(subfolder, opened) as files, os.scandir(files) as entries:
                for entry in entries:
                    if entry.name.startswith("."):
                        continue
                    with suppress(FileNotFoundError):  # it was moved from new to cur, or removed
                        status = entry.stat(follow_symlinks=False)
                        if stat.S_ISREG(status.st_mode):
                            yield int(status.st_mtime), status.st_size, f"{subfolder}/{entry.name}"
                        else:
                            skip(NO_FILE)
        except FileNotFoundError:
            continue
        except OSError as error:
            skip(skip_reason(error))


def _flags(name: str, keywords: Mapping[str, MessageFlags]) -> MessageFlags:
    flags = MessageFlags.NONE
    for message in name.partition(":2,")[2]:
        flags |= _FLAGS.get(message) or keywords.get(message) or MessageFlags.NONE
    return flags


def _read_keywords(opened: int) -> Mapping[str, MessageFlags]:
    """Return the keywords that Dovecot writes into names as ``a`` to ``z``, by its file ``dovecot-keywords``."""
    try:
        with opened_below("dovecot-keywords", opened) as file:
            lines = os.read(file, _MAX_KEYWORDS_BYTES).decode("ascii", "replace").splitlines()
    except OSError:
        return {}
    pairs = [line.split(" ", 1) for line in lines]
    return {
        chr(ord("a") + int(pair[0])): keyword_flags(pair[1:])
        for pair in pairs
        if re.fullmatch("[0-9]|1[0-9]|2[0-5]", pair[0])
    }


def _read_start(opened: int, name: str) -> bytes:
    """Return the beginning of a message of a Maildir. Raises ``OSError``."""
    subfolder, _, file_name = name.partition("/")
    with opened_below(subfolder, opened) as files, opened_below(file_name, files) as file:
        start = os.read(file, _HEADER_BYTES)
    if start.startswith(_COMPRESSED_STARTS):
        raise Unreadable(_COMPRESSED)
    return start


def _read_message(opened: int, locator: bytes) -> bytes:
    """Return a message of a Maildir, under whatever name it has by now. Raises ``OSError``."""
    subfolder, _, name = os.fsdecode(locator).partition("/")
    with suppress(FileNotFoundError), opened_below(subfolder, opened) as files, opened_below(name, files) as file:
        return read_all(file)
    unique = name.partition(":")[0]
    for subfolder in _SUBFOLDERS:
        with opened_below(subfolder, opened) as files, os.scandir(files) as entries:
            for entry in entries:
                if entry.name.partition(":")[0] == unique:
                    with opened_below(entry.name, files) as file:
                        return read_all(file)
    raise FileNotFoundError(errno.ENOENT, GONE)
