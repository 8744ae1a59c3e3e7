"""The messages of a Maildir: a file for each, with its flags behind its unique name.

Rules: a message is followed where its flags have changed its name. Of a folder the newest messages are looked at,
by the time of their files, which mail servers set to when a message came in.
"""

from __future__ import annotations

import errno
import heapq
import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from operator import itemgetter
from typing import TYPE_CHECKING

from nbstream.training.messages import (
    MAX_MESSAGES,
    TOO_MANY_MESSAGES,
    Folder,
    MailboxMessage,
    MessageFlags,
    MessageHeader,
    keyword_flags,
    needs_header,
    read_header,
)
from nbstream.training.opening import GONE, NO_FILE, Unreadable, opened_below, read_all, skip_reason

if TYPE_CHECKING:
    from nbstream.training.messages import SkipReason

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


def messages(folder: Folder, opened: int, own_field: str | None, skip: SkipReason) -> Iterator[MailboxMessage]:
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


def read_message(opened: int, locator: bytes) -> bytes:
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
