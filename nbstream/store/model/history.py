"""The history: what was learned, when, by whom, and what it did, so that it can be told and taken back.

Rules: a record is written by the same script as the change it is about, so there is neither one without the other;
it keeps the whole entry that it replaced, so that exactly that can be put back. The history is trimmed to a number
of records, the oldest first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbstream.errors import StoreIncompatible
from nbstream.store.model.ledger import LedgerEntry

if TYPE_CHECKING:
    from collections.abc import Mapping

_FORMER_PREFIX = b"former:"


@dataclass(frozen=True, slots=True)
class Assessment:
    """P(spam) of a message and its verdict, at some moment."""

    probability: float
    verdict: str

    def pack(self) -> str:
        """As it is stored."""
        return f"{self.probability!r} {self.verdict}"

    @classmethod
    def unpack(cls, stored: bytes) -> Assessment:
        """What ``pack`` packed."""
        probability, _, verdict = stored.decode().partition(" ")
        return cls(float(probability), verdict)


@dataclass(frozen=True, slots=True)
class LessonNote:
    """Who changed something through which door, and what was thought of the message before and after.

    What came after is what the change made of it if nobody else taught anything at the same moment.
    """

    source: str
    actor: str
    before: Assessment
    after: Assessment


@dataclass(frozen=True, slots=True)
class HistoryRecord:
    """One change of what one message is learned as.

    ``id`` is its place in the history, ``at`` seconds since the epoch; ``label`` and ``version`` are those of the
    entry that it wrote, None where it left none; ``former`` the entry that was there before.
    """

    id: bytes
    at: float
    message_key: str
    label: str | None
    version: str | None
    former: LedgerEntry | None
    note: LessonNote

    @property
    def description(self) -> str:
        """The change in words: ``learned spam``, ``relearned ham -> spam``, ``unlearned spam``."""
        if self.former is None:
            return f"learned {self.label}"
        return f"relearned {self.former.label} -> {self.label}" if self.label else f"unlearned {self.former.label}"


@dataclass(frozen=True, slots=True)
class HistorySelection:
    """Which records are meant; None of ``until``, ``actor``, ``label`` and ``message_key`` means any.

    ``since`` and ``until`` are seconds since the epoch, the latter no longer meant; ``label`` is what was learned,
    or what was taken back where nothing was.
    """

    since: float = 0.0
    until: float | None = None
    actor: str | None = None
    label: str | None = None
    message_key: str | None = None

    def __contains__(self, found: HistoryRecord) -> bool:
        label = found.label or (found.former.label if found.former else None)
        return (
            self.since <= found.at
            and (self.until is None or found.at < self.until)
            and self.actor in {None, found.note.actor}
            and self.label in {None, label}
            and self.message_key in {None, found.message_key}
        )


def history_fields(new: LedgerEntry | None, note: LessonNote) -> list[str]:
    """What the script writes of a change beside the message and its former entry: names and values in turn."""
    return [
        *("label", new.label if new else "", "version", new.version if new else ""),
        *("source", note.source, "actor", note.actor),
        *("before", note.before.pack(), "after", note.after.pack()),
    ]


def read_history_record(place: bytes, stored: Mapping[bytes, bytes]) -> HistoryRecord:
    """A record from the fields of its stream entry. Raises ``StoreIncompatible`` for those of another program."""
    former = {
        name.removeprefix(_FORMER_PREFIX): value
        for name, value in stored.items()
        if name.startswith(_FORMER_PREFIX)
    }
    try:
        return HistoryRecord(
            id=place,
            at=int(place.partition(b"-")[0]) / 1000,
            message_key=stored[b"id"].decode(),
            label=stored[b"label"].decode() or None,
            version=stored[b"version"].decode() or None,
            former=LedgerEntry.unpack(former),
            note=LessonNote(
                stored[b"source"].decode(),
                stored[b"actor"].decode(),
                Assessment.unpack(stored[b"before"]),
                Assessment.unpack(stored[b"after"]),
            ),
        )
    except (KeyError, ValueError) as error:
        raise StoreIncompatible("a record of the history cannot be read: another program wrote it") from error
