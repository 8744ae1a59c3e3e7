"""Mailboxes in files of this machine: Maildir++, Maildirs within Maildirs, folders of mboxes, one mbox.

Rules: no link is followed below the root of the template. Nothing is written. A number of accounts and of folders
is looked at.
"""

from __future__ import annotations

import heapq
import itertools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from nbstream.training import maildir, mbox_folder
from nbstream.training.folder_roles import decode_folder_name, folder_role
from nbstream.training.messages import (
    EMPTY_MESSAGE,
    MAX_FOLDERS,
    Account,
    Folder,
    MailboxMessage,
    SkippedMail,
    reading_order,
)
from nbstream.training.opening import GONE, exists, is_folder, opened_at, skip_reason
from nbstream.training.template import user_of, user_variables

if TYPE_CHECKING:
    from nbstream.training.messages import MessagePlace, Skip
    from nbstream.training.template import PathTemplate

MAX_ACCOUNTS = 100_000
"""So many accounts are looked at."""

_MAX_LEVELS = 10
_OF_MAILDIR = ("cur", "new", "tmp")
_DBOX = "is of Dovecot's dbox, which Dovecot alone reads: read the mailboxes over IMAP"
_NO_MAILBOX = "is neither a Maildir nor an mbox"
_TOO_MANY_ACCOUNTS = f"has more than {MAX_ACCOUNTS:,} accounts: the rest is left out"
_TOO_MANY_FOLDERS = f"has more than {MAX_FOLDERS:,} folders, or {_MAX_LEVELS} levels of them: the rest is left out"

_Names: TypeAlias = tuple[str, ...]
_Found: TypeAlias = tuple[Mapping[str, str], _Names]


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
        found: list[_Found] = [({}, ())]
        if self._users is not None:
            found = [(user_variables(user), ()) for user in self._users]
        for position in range(len(self._template.segments)):
            found = list(itertools.islice(self._find(position, found, skip), MAX_ACCOUNTS + 1))
        if len(found) > MAX_ACCOUNTS:
            skip(SkippedMail(str(self._template.root), _TOO_MANY_ACCOUNTS))
        for values, names in found[:MAX_ACCOUNTS]:
            yield Account(user_of(values), self._path(names))

    def _find(self, position: int, found: Iterable[_Found], skip: Skip) -> Iterator[_Found]:
        """Yield the names down to this segment of the template, with the variables that are known by then."""
        for known, names in found:
            with self._reported(names, skip), self._opened(names) as folder:
                expected = self._template.name_at(position, known)
                if expected is None:
                    for name in sorted(os.listdir(folder)):  # noqa: PTH208 - a descriptor has no path
                        if (values := self._template.match(position, name, known)) is not None:
                            yield values, (*names, name)
                elif exists(expected, folder):
                    yield known, (*names, expected)
                elif self._users is not None:
                    self._skip(skip, (*names, expected), GONE)

    def messages(self, account: Account, skip: Skip) -> Iterator[MailboxMessage]:
        """Yield the messages of an account; see ``MailSource``."""
        root = self._names(account)
        for folder in sorted(self._folders(root, skip), key=reading_order):
            names = (*root, *_split(folder.place))
            with self._reported(names, skip), self._opened(names) as opened:
                messages = maildir.messages if is_folder(opened) else mbox_folder.messages
                yield from messages(folder, opened, self._own_field, partial(self._skip, skip, names))

    def read(self, places: Sequence[MessagePlace], skip: Skip) -> Iterator[tuple[int, bytes]]:
        """Yield the messages at these places in their order; see ``MailSource``."""
        for place in places:
            names = (*self._names(place.account), *_split(place.folder.place))
            with self._reported(names, skip), self._opened(names) as opened:
                read = maildir.read_message if is_folder(opened) else mbox_folder.read_message
                raw = read(opened, place.locator)
                if raw.strip():
                    yield place.number, raw
                else:
                    self._skip(skip, names, EMPTY_MESSAGE)

    def _folders(self, root: _Names, skip: Skip) -> Iterator[Folder]:
        """Yield the folders of the account whose mailboxes begin at ``root``."""
        waiting: list[tuple[_Names, _Names]] = [((), ())]
        room = MAX_FOLDERS
        while waiting:
            names, levels = waiting.pop()
            with self._reported((*root, *names), skip), self._opened((*root, *names)) as opened:
                is_mailbox = exists("cur", opened) if is_folder(opened) else mbox_folder.is_mbox(opened)
                if is_mailbox:
                    name = "/".join(levels) or "INBOX"
                    yield Folder(name, folder_role(name), "/".join(names))
                elif not names and not is_folder(opened):
                    self._skip(skip, root, _NO_MAILBOX)
                if not is_folder(opened):
                    continue
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
    """Yield names that may be folders: no files in a Maildir, hidden ones at the root alone, as in Maildir++."""
    with os.scandir(folder) as entries:
        for entry in entries:
            is_folder = entry.is_dir(follow_symlinks=False)
            if is_maildir and (not is_folder or entry.name in _OF_MAILDIR):
                continue
            if entry.name.startswith(".") and not (is_root and is_folder):
                continue
            if is_folder or entry.is_file(follow_symlinks=False):
                yield entry.name


def _levels(name: str) -> Sequence[str]:
    """Return the levels of a folder by its name on the disk: those of Maildir++ have dots between them."""
    levels = name[1:].split(".") if name.startswith(".") else [name]
    return [decode_folder_name(os.fsencode(level)) for level in levels]
