"""Which recorded lessons of a message Redis has lost, and which of them may be taught again.

Rules: pure, nothing is read here. A lesson that is in the history was not lost. A lost lesson is taught again only
if it is the last word on its message: if the history has a later step of the message, that one stays. When a step
was made is its time by the clock of Redis; a lesson that was taught again has the time of the lost one. After that
clock was set back, the time in the stream ids stands still until it is reached again, on two primaries at the same
millisecond: then the clocks of those who taught decide. Several lost lessons of a message are taught again in
their order, so each follows the one before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from nbstream.store.model.commit import UNKNOWN_VERSION
from nbstream.store.model.history import id_milliseconds, is_stream_id

if TYPE_CHECKING:
    from pathlib import Path

    from nbstream.store.model.commit import AcknowledgedLesson
    from nbstream.store.model.history import HistoryStep


class Finding(StrEnum):
    """What became of a recorded lesson."""

    PRESENT = "present"
    """Redis has it."""
    MISSING = "missing"
    """Redis has lost it, and nothing later is known of its message."""
    SUPERSEDED = "superseded"
    """Redis has lost it, and the message was taught something else, or unlearned, since."""
    UNKNOWN = "unknown"
    """The history does not go back far enough to tell."""


@dataclass(frozen=True, slots=True)
class RecordedLesson:
    """A recorded lesson without its tokens, and where the rest of it is: ``size`` bytes at ``position`` of a file.

    ``change`` is the stream id of the change that people made, also where the lesson was taught again since.
    ``former_version`` and ``version`` are those of the ledger entry before and after it, empty for no entry;
    ``label`` is what was learned, empty where the message was unlearned. ``made_at`` is that of the note.
    """

    change: bytes
    message_key: str
    former_version: str
    version: str
    label: str
    path: Path
    position: int
    size: int
    made_at: float = 0.0

    @classmethod
    def from_lesson(cls, lesson: AcknowledgedLesson, path: Path, position: int, size: int) -> RecordedLesson:
        """What is to be known of ``lesson``, whose frame has that place in that file.

        Raises ``StoreIncompatible`` where its note cannot be read, and ``ValueError`` for a change that is none.
        """
        fields = dict(zip(lesson.entry_fields[0::2], lesson.entry_fields[1::2], strict=True))
        version, label = (fields.get(name, b"").decode() for name in (b"version", b"label"))
        change = lesson.note.repeats or lesson.change
        if not is_stream_id(change):
            raise ValueError(f"{change!r:.60} is the id of no change")
        place = path, position, size
        return cls(change, lesson.message_key, lesson.former_version, version, label, *place, lesson.note.made_at)

    @property
    def milliseconds(self) -> int:
        """When the lesson was acknowledged, in milliseconds since the epoch by the clock of Redis."""
        return id_milliseconds(self.change)

    @property
    def moment(self) -> tuple[int, float]:
        """When the lesson was taught: its ``milliseconds``, and ``made_at``."""
        return self.milliseconds, self.made_at

    @property
    def order(self) -> tuple[int, float, int]:
        """The place of the lesson among those of its message."""
        return *self.moment, int(self.change.partition(b"-")[2])


def find_lessons(lessons: Sequence[RecordedLesson], steps: Sequence[HistoryStep]) -> list[Finding]:
    """What became of each of the recorded lessons of one message, which come in their order.

    ``steps`` are those of the message in the history, oldest first, at least since the first lesson. The work is
    linear, since one message may be taught and unlearned thousands of times.
    """
    are_present = _are_in_history(lessons, steps)
    last_place = {step.version: place for place, step in enumerate(steps)}
    latest_from = [(0, 0.0)] * (len(steps) + 1)  # the latest moment of all steps from that place on
    for place in reversed(range(len(steps))):
        latest_from[place] = max(steps[place].moment, latest_from[place + 1])
    findings = []
    for lesson, is_present in zip(lessons, are_present, strict=True):
        # What comes after the step that the lesson followed may be of the same millisecond.
        first = last_place.get(lesson.former_version, -1) + 1 if lesson.former_version else 0
        is_superseded = latest_from[first] > lesson.moment
        lost = Finding.SUPERSEDED if is_superseded else Finding.MISSING
        findings.append(Finding.PRESENT if is_present else lost)
    return findings


def _are_in_history(lessons: Sequence[RecordedLesson], steps: Sequence[HistoryStep]) -> list[bool]:
    """Whether a step of the history is that lesson, and not an earlier one with the same effect.

    An undo puts a former entry back with its version, so the same step may occur twice. A lesson that was only
    found in place has no step of its own: any step that left its entry will do.
    """
    versions = {step.version for step in steps}
    same_steps = Counter((step.former_version, step.version) for step in steps if not step.repeats)
    repeated = {step.repeats for step in steps}
    are_present = []
    for lesson in lessons:
        effect = (lesson.former_version, lesson.version)
        is_in_place = lesson.former_version == UNKNOWN_VERSION and lesson.version in versions
        are_present.append(is_in_place or lesson.change in repeated or same_steps[effect] > 0)
        if lesson.change not in repeated:
            same_steps[effect] -= 1
    return are_present
