"""The lessons that Redis has acknowledged to the processes of this host, before they acknowledge them to others.

Rules: a journal that cannot be written refuses no lesson: it says so once, counts, and goes on. A lesson waits for
the disk at most ``_WRITE_SECONDS``; while a write takes longer than that, the lessons after it do not wait. The
journal is not synced: it survives the end of every process, but not the end of the machine. It holds what was in
people's mail, as the ledger does.

A lesson is kept until ``recovery`` has compared it with Redis, and while Redis or a replica is away. Where nobody
does that, as without a daemon, it is kept for ``_ABANDONED_SECONDS``. The lessons of the daemon have at most
``MAX_BYTES``, some 32,000 lessons of 450 tokens; of more the newest are kept. Those of commands are a journal of
their own, with the same bound: however much a command learns, what people have taught the daemon stays.

Version 0.7 wrote the same frames into files of each process; ``take_over`` puts them into the journal.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import re
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from nbstream.store.journal.frames import HEADER_BYTES, frame_bytes, unpack_frame
from nbstream.store.journal.journal import Journal, JournalKind
from nbstream.store.journal.writer import GroupCommit, JournalWriter, Record
from nbstream.store.model.history import LessonNote, read_note
from nbstream.store.model.ledger import LedgerEntry

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_log = logging.getLogger(__name__)

FOLDER = "acknowledged"
"""The name of the folder in ``state_dir`` for the lessons of the daemon."""

COMMANDS_FOLDER = "commands"
"""The name of the folder in that one for the lessons of commands."""

KEPT_SECONDS = 900.0
"""How long a lesson is kept at least, unless there are too many: a replica may be promoted some minutes later."""

UNKNOWN_VERSION = "?"
"""Stands for the version of an entry of which it is not known what it replaced."""

MAX_BYTES = 64 << 20
_ABANDONED_SECONDS = 86_400.0
_KIND = JournalKind("lessons", b"nbstream lessons 2\n", is_synced=False, kept_seconds=_ABANDONED_SECONDS)

_WRITE_SECONDS = 1.0
_TOO_SLOW = "the disk is too slow"
_MAX_WAITING_BYTES = 4 << 20  # about 3,000 lessons that wait for the disk

_RECORD_VERSION = b"1"
_NAMED_STRINGS = 7  # before the fields: version, model, identity, change, message key, former version, note fields
_FORMER_NAME = re.compile(r"\d{20}-[0-9a-f]{16}\.lessons")


@dataclass(frozen=True, slots=True)
class AcknowledgedLesson:
    """One lesson that Redis has acknowledged.

    ``model`` is the name of the model and ``identity`` its identity (see ``signature.read_identity``), empty where
    that was not known. ``change`` is the stream id of the change. ``former_version`` is the version of the ledger
    entry that was replaced, empty for none, and ``UNKNOWN_VERSION`` where the lesson was only found in place.
    ``note_fields`` and ``entry_fields`` are names and values in turn, as the learn script got them; without
    ``entry_fields`` the message was unlearned.
    """

    model: str
    identity: str
    change: bytes
    message_key: str
    former_version: str
    note_fields: tuple[bytes, ...]
    entry_fields: tuple[bytes, ...]

    @property
    def entry(self) -> LedgerEntry | None:
        """The ledger entry that the lesson wrote. Raises ``StoreIncompatible`` for one of another program."""
        fields = dict(zip(self.entry_fields[0::2], self.entry_fields[1::2], strict=True))
        return LedgerEntry.unpack({**fields, b"change": self.change} if fields else {})

    @property
    def note(self) -> LessonNote:
        """The note of the lesson in the history. Raises ``StoreIncompatible`` for one of another program."""
        return read_note(dict(zip(self.note_fields[0::2], self.note_fields[1::2], strict=True)))

    def pack(self) -> Record:
        """The record of the lesson in the journal."""
        return (
            _RECORD_VERSION,
            self.model.encode(),
            self.identity.encode(),
            self.change,
            self.message_key.encode(),
            self.former_version.encode(),
            b"%d" % len(self.note_fields),
            *self.note_fields,
            *self.entry_fields,
        )

    @classmethod
    def unpack(cls, record: Record) -> AcknowledgedLesson:
        """The lesson of a record. Raises ``ValueError`` for a record of another version."""
        version, model, identity, change, message_key, former_version, note_length = record[:_NAMED_STRINGS]
        if version != _RECORD_VERSION:
            raise ValueError(f"a lesson of version {version!r:.20}")
        fields, end = tuple(record[_NAMED_STRINGS:]), int(note_length)
        names = (model.decode(), identity.decode(), change, message_key.decode(), former_version.decode())
        return cls(*names, fields[:end], fields[end:])


def lesson_files(folder: Path) -> Journal:
    """Return the files of the acknowledged lessons in ``folder``."""
    return Journal(folder, _KIND)


class LessonJournal:
    """Records in ``folder`` the lessons that Redis has acknowledged to this process.

    ``identity`` is the identity of the model that lessons go to; each ``Model.open`` sets it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.identity = ""
        self._group_commit = GroupCommit(JournalWriter(lesson_files(folder), MAX_BYTES), "lessons")
        self._waiting_bytes = 0
        self._is_slow = False
        self._is_failing = False
        self._report_unrecorded: Callable[[int], object] = lambda _: None

    def report_unrecorded_to(self, report: Callable[[int], object]) -> None:
        """From now on call ``report`` with the number of lessons that could not be recorded."""
        self._report_unrecorded = report

    async def record(self, lessons: Sequence[AcknowledgedLesson]) -> None:
        """Record the lessons; return when that is done, or takes too long. Never raises."""
        records = [lesson.pack() for lesson in lessons]
        size = sum(len(string) for record in records for string in record)
        if self._waiting_bytes + size > _MAX_WAITING_BYTES:
            self._note_failure(len(lessons), _TOO_SLOW)
            return
        self._waiting_bytes += size
        writing = self._group_commit.begin(records)
        writing.add_done_callback(partial(self._note_end, len(lessons), size))
        if not self._is_slow:
            done, _ = await asyncio.wait([writing], timeout=_WRITE_SECONDS)
            self._is_slow = self._is_slow or not done

    async def close(self) -> None:
        """Write what waits, and close the file."""
        await self._group_commit.close()

    def _note_end(self, lessons: int, size: int, writing: asyncio.Future[None]) -> None:
        self._waiting_bytes -= size
        self._is_slow = False
        if writing.cancelled():  # this process ends
            self._note_failure(lessons, _TOO_SLOW)
        elif error := writing.exception():
            self._note_failure(lessons, str(error))
        elif self._is_failing:
            self._is_failing = False
            _log.info("acknowledged lessons are recorded again")

    def _note_failure(self, lessons: int, problem: str) -> None:
        """Count lessons that are not recorded, and log the first failure of several."""
        self._report_unrecorded(lessons)
        if not self._is_failing:
            _log.error(
                "acknowledged lessons are not recorded: what a failover of Redis loses cannot be taught again: %s",
                problem,
            )
        self._is_failing = True


def former_files(folder: Path) -> list[Path]:
    """Return the files that version 0.7 has left in ``folder``. Raises ``OSError``."""
    paths = sorted(folder.iterdir()) if folder.is_dir() else []
    return [path for path in paths if _FORMER_NAME.fullmatch(path.name)]


def take_over(path: Path) -> None:
    """Put the lessons of a former file into the journal of its folder, and remove it. Raises ``OSError``."""
    if not stat.S_ISREG(path.lstat().st_mode):
        raise OSError(errno.EINVAL, "it is no file")
    writer = JournalWriter(lesson_files(path.parent), MAX_BYTES)
    writer.append(list(_whole_frames(path.read_bytes())))
    writer.close()
    path.unlink()


def _whole_frames(data: bytes) -> Iterator[Record]:
    start = 0
    while start + HEADER_BYTES <= len(data):
        end = start + frame_bytes(data[start : start + HEADER_BYTES])
        record = unpack_frame(data[start:end])
        if record is None:
            return
        yield record
        start = end
