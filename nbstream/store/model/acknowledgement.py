"""An acknowledged lesson: all that is needed to commit it once more, should Redis lose it.

Rules: the entry and the note are kept as the learn script got them, so that recording a lesson packs nothing twice
and the lesson can be repeated to the last digit. The entry that it replaced is not kept: whoever repeats the
lesson replaces the entry that the ledger has then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from nbstream.store.model.history import LessonNote, read_note
from nbstream.store.model.ledger import LedgerEntry

KEPT_SECONDS = 900.0
"""How long a lesson is kept at least, unless there are too many: a replica may be promoted some minutes later."""

UNKNOWN_VERSION = "?"
"""Stands for the version of an entry of which it is not known what it replaced."""


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


class LessonRecorder(Protocol):
    """Records acknowledged lessons.

    ``identity`` is the identity of the model that lessons go to; each ``Model.open`` sets it.
    """

    identity: str

    async def record(self, lessons: Sequence[AcknowledgedLesson]) -> None:
        """Record the lessons before their acknowledgement goes on to whoever taught them; never raises."""
