"""A message in the spool, and its frame."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from nbstream.store import frames


@dataclass(frozen=True, slots=True)
class SpooledMessage:
    """A message that waits to be learned as ``label``, "spam" or "ham".

    ``actor`` is who gave the label, as in ``LessonSource``; ``received_at`` is in whole seconds since the epoch;
    ``content`` is the message as it came, with line ends of any kind.
    """

    label: str
    actor: str
    received_at: int
    content: bytes = field(repr=False)


def pack_message(message: SpooledMessage) -> bytes:
    """Return the frame of the message."""
    strings = [message.label.encode(), message.actor.encode(), b"%d" % message.received_at, message.content]
    return frames.pack_frame(strings)


def unpack_message(strings: Sequence[bytes]) -> SpooledMessage:
    """Return the message of a frame. Raises ``ValueError`` for the strings of another frame."""
    label, actor, received_at, content = strings
    return SpooledMessage(label.decode(), actor.decode(), int(received_at), content)
