"""From the bytes of a message, as they came in, to the message that is looked at.

Rules: every way in ends here, so that the same message has the same tokens and the same key whichever way it came.
Line ends become CRLF. The fields that carry our verdict are removed, since whoever sent the message may have
written them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from nbstream.mail import header_fields
from nbstream.mail.lines import normalize_line_ends
from nbstream.mail.message import Message
from nbstream.mail.mime import MAX_HEADER_BYTES
from nbstream.policy.verdict_fields import GUARD_FIELD, OWN_FIELD, VERDICT_FIELDS

if TYPE_CHECKING:
    from nbstream.mail.mime import MessageLimits

_OWN_FIELD = re.compile(rb"^%s[ \t]*:" % OWN_FIELD.encode(), re.MULTILINE | re.IGNORECASE)
_RECEIVED_FIELD = re.compile(rb"^Received[ \t]*:", re.MULTILINE | re.IGNORECASE)


def incoming_message(raw: bytes, limits: MessageLimits) -> Message:
    """Return the message in ``raw``, whose line ends may be of any kind; any bytes are a message."""
    return Message(without_verdict_fields(normalize_line_ends(raw)), limits)


def taught_message(raw: bytes, limits: MessageLimits) -> Message:
    """Return the message in ``raw``, of which somebody says what it is, as it was when it was checked.

    The Received fields above the topmost of our verdicts were added on the way from us to the mailbox. They would
    hide what our own server had written above the topmost Received field that the check saw. They stay where no
    Received field stands below the verdict, because then the verdict may stand below all that the check saw. Only
    what is taught is read like this: of a message that comes in, whoever sent it may have written a verdict field.
    Where nbstream adds no field to mail, the topmost one may be the sender's; the server has to remove it.
    """
    content = normalize_line_ends(raw)
    header_end = header_fields.body_offset(content[:MAX_HEADER_BYTES])
    own = _OWN_FIELD.search(content, 0, header_end)
    if own and _RECEIVED_FIELD.search(content, own.end(), header_end):
        later = header_fields.strip_fields(content[: own.start()], ("Received",))
        content = later + content[own.start() :]
    return Message(without_verdict_fields(content), limits)


def without_verdict_fields(content: bytes) -> bytes:
    """Return ``content`` (CRLF line ends) without the header fields that carry our verdict."""
    return header_fields.strip_fields(content, VERDICT_FIELDS)


def with_guarded_first_line(content: bytes) -> bytes:
    """Return ``content`` (CRLF line ends) such that fields may be put on top of it.

    A first line that continues a field would become part of the last of them: a field of ours is put before it.
    """
    return header_fields.guard_first_line(content, GUARD_FIELD)
