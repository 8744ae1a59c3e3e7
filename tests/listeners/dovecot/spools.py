"""Messages for tests of the spool, and what writes and reads them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from nbstream.listeners.dovecot.spool import SpooledMessage, SpoolReader
from nbstream.store.journal.frames import pack_frame
from nbstream.store.journal.journal import Journal
from nbstream.store.journal.writer import SEGMENT_BYTES, JournalWriter

MAX_BYTES = 1 << 20


def message(number: int, content: bytes = b"Subject: x\r\n\r\nprize\r\n") -> SpooledMessage:
    return SpooledMessage("spam", f"user ann{number}", 1_700_000_000 + number, content)


def frame(spooled: SpooledMessage) -> bytes:
    return pack_frame(spooled.pack())


class SpoolWriter:
    """Another process that adds messages."""

    def __init__(self, folder: Path, max_bytes: int = MAX_BYTES, segment_bytes: int = SEGMENT_BYTES) -> None:
        self._writer = JournalWriter(Journal(folder), max_bytes, segment_bytes)

    def append(self, messages: Sequence[SpooledMessage]) -> None:
        self._writer.append([message.pack() for message in messages])


def segments(folder: Path) -> list[Path]:
    """The files of the segments, in their order."""
    journal = Journal(folder)
    return [journal.path(number) for number in journal.segments()]


def read_all(reader: SpoolReader) -> list[SpooledMessage]:
    messages = []
    while (entry := reader.take()) is not None:
        messages.append(entry.message)
        reader.finish(entry)
    return messages
