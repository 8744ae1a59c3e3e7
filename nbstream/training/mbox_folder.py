"""The messages of an mbox: one file for all of a folder, their flags in fields that a mail program has added.

Rules: while another program has it locked, it is not read. A message that is no longer where it was, or that does
not end where it ended, is left out. Of a folder the last messages are looked at, up to where it ended at first.
"""

from __future__ import annotations

import fcntl
import os
import re
import struct
from collections import deque
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, BinaryIO

from nbstream.mail import mbox
from nbstream.mail.mime import MAX_HEADER_BYTES
from nbstream.training.messages import (
    MAX_MESSAGES,
    TOO_MANY_MESSAGES,
    Folder,
    MailboxMessage,
    MessageFlags,
    keyword_flags,
    read_header,
)
from nbstream.training.opening import CHANGED, Unreadable

if TYPE_CHECKING:
    from nbstream.training.messages import SkipReason

_SEPARATOR_BYTES = 400
_LINE_BYTES = 1 << 20  # the rest of a longer line is the next one
_LOCATOR = struct.Struct(">QQq")  # where the message begins and ends, and its identity
_KEYWORDS = re.compile(rb"(?im)^X-Keywords:([^\r\n]*)")
_MAX_BYTES = 16 << 30
_LOCKED = "is locked by a program that writes to it: run the command again"
_HOLES = "has holes, which no mail program leaves"
_MAX_UNALLOCATED = 1 << 20  # file systems count blocks late, and keep small files elsewhere
_MAX_COMPRESSION = 50
_BLOCK_BYTES = 512  # of st_blocks
_TOO_LARGE = f"is larger than {_MAX_BYTES >> 30} GiB"
_FLAGS = {  # neither answered nor flagged, by which a stranger who writes the field would teach ham
    "R": MessageFlags.SEEN,
    "D": MessageFlags.DELETED,
    "T": MessageFlags.DRAFT,
}


def is_mbox(opened: int) -> bool:
    """Return whether the file begins as an mbox."""
    return mbox.is_separator(os.pread(opened, _SEPARATOR_BYTES, 0))


def messages(folder: Folder, opened: int, own_field: str | None, skip: SkipReason) -> Iterator[MailboxMessage]:
    """Yield the last messages of a folder that was opened. Raises ``OSError``."""
    last: deque[MailboxMessage] = deque(maxlen=MAX_MESSAGES)
    count = 0
    if (size := _unlocked_size(opened)) > _MAX_BYTES:
        raise Unreadable(_TOO_LARGE)
    with open(opened, "rb", closefd=False) as stream:
        for start, end, raw in _spans(stream, size):
            if mbox.is_folder_data(raw):
                continue
            count += 1
            header = read_header(raw, own_field)
            locator = _LOCATOR.pack(start, end, header.identity)
            last.append(MailboxMessage(folder, locator, _flags(raw), header.received or 0, end - start, header))
    if count > MAX_MESSAGES:
        skip(TOO_MANY_MESSAGES)
    yield from last


def _unlocked_size(opened: int) -> int:
    """Return the size in bytes of an mbox that nobody has locked. Raises ``OSError``."""
    try:
        fcntl.lockf(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
        fcntl.lockf(opened, fcntl.LOCK_UN)
    except (BlockingIOError, PermissionError) as error:  # the two that POSIX has for it
        raise Unreadable(_LOCKED) from error
    status = os.fstat(opened)
    # Holes cost their owner nothing, and a whole day to read.
    if status.st_size > _MAX_UNALLOCATED + _MAX_COMPRESSION * _BLOCK_BYTES * status.st_blocks:
        raise Unreadable(_HOLES)
    return status.st_size


def _spans(stream: BinaryIO, size: int) -> Iterator[tuple[int, int, bytes]]:
    """Yield where each message of the first ``size`` bytes of an mbox begins and ends, and its header."""
    position = start = len(stream.readline(_LINE_BYTES))
    header: list[bytes] = []
    header_bytes, in_header, blank = 0, True, True
    for line in iter(partial(stream.readline, _LINE_BYTES), b""):
        if position >= size:
            break  # it grows, perhaps as fast as it is read
        if blank and mbox.is_separator(line):
            yield start, position, b"".join(header)
            start, header, header_bytes, in_header = position + len(line), [], 0, True
        elif in_header:
            in_header = not mbox.is_blank(line) and header_bytes < MAX_HEADER_BYTES
            header.append(line)
            header_bytes += len(line)
        blank = mbox.is_blank(line)
        position += len(line)
    yield start, position, b"".join(header)


def _flags(header: bytes) -> MessageFlags:
    flags = MessageFlags.NONE
    for message in mbox.status_letters(header):
        flags |= _FLAGS.get(message, MessageFlags.NONE)
    keywords = b" ".join(_KEYWORDS.findall(header)).decode("ascii", "replace")
    return flags | keyword_flags(keywords.split())


def read_message(opened: int, locator: bytes) -> bytes:
    """Return a message of an mbox, if it is where it was. Raises ``OSError``."""
    start, end, identity = _LOCATOR.unpack(locator)
    _unlocked_size(opened)
    part = os.pread(opened, end - start, start)
    raw = mbox.message_of(part)
    following = os.pread(opened, _SEPARATOR_BYTES, end)
    is_whole = len(part) == end - start and (not following or mbox.is_separator(following))
    if not is_whole or identity != read_header(raw, None).identity:
        raise Unreadable(CHANGED)
    return raw
