"""From the bytes of a message, as they came in, to the message that is looked at.

Rules: every way in ends here, so that the same message has the same tokens and the same key whichever way it came.
Line ends become CRLF. The fields that carry our verdict are removed, since whoever sent the message may have
written them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbstream.mail import header_fields
from nbstream.mail.lines import normalize_line_ends
from nbstream.mail.message import Message
from nbstream.policy.verdict_fields import GUARD_FIELD, VERDICT_FIELDS

if TYPE_CHECKING:
    from nbstream.mail.mime import MessageLimits


def incoming_message(raw: bytes, limits: MessageLimits) -> Message:
    """Return the message in ``raw``, whose line ends may be of any kind; any bytes are a message."""
    return Message(without_verdict_fields(normalize_line_ends(raw)), limits)


def without_verdict_fields(content: bytes) -> bytes:
    """Return ``content`` (CRLF line ends) without the header fields that carry our verdict."""
    return header_fields.strip_fields(content, VERDICT_FIELDS)


def with_guarded_first_line(content: bytes) -> bytes:
    """Return ``content`` (CRLF line ends) such that fields may be put on top of it.

    A first line that continues a field would become part of the last of them: a field of ours is put before it.
    """
    return header_fields.guard_first_line(content, GUARD_FIELD)
