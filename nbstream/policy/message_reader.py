"""From the bytes of a message, as they came in, to the message that is looked at.

Rules: every way in ends here, so that the same message has the same tokens and the same key whichever way it came.
Line ends become CRLF. The fields that carry our verdict, and the tag in the Subject, are removed, since whoever
sent the message may have written them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache

from nbstream.mail import header_fields
from nbstream.mail.header_edits import untag_subject
from nbstream.mail.lines import normalize_line_ends
from nbstream.mail.message import Message
from nbstream.mail.mime import MAX_HEADER_BYTES, MessageLimits
from nbstream.policy.header import FilterMarks


@lru_cache(maxsize=4)
def _field_start(name: str) -> re.Pattern[bytes]:
    return re.compile(rb"^%s[ \t]*:" % re.escape(name.encode("ascii")), re.MULTILINE | re.IGNORECASE)


_RECEIVED_FIELD = _field_start("Received")


@dataclass(frozen=True, slots=True)
class MessageReader:
    """Makes messages of bytes; ``limits`` say how much of a message is looked at.

    ``marks`` is what is removed. ``marks_mail`` says whether mail passes through a listener that replaces
    these fields by its own: without one, such a field in a delivered message is its sender's.
    """

    limits: MessageLimits = field(default_factory=MessageLimits)
    marks: FilterMarks = field(default_factory=FilterMarks)
    marks_mail: bool = True

    def read_incoming(self, raw: bytes) -> Message:
        """Return the message in ``raw``, whose line ends may be of any kind; any bytes are a message."""
        return self.read_stripped(self.strip(normalize_line_ends(raw)))

    def read_taught(self, raw: bytes) -> Message:
        """Return the message in ``raw``, of which somebody says what it is, as it was when it was checked.

        The Received fields above the topmost of our verdicts were added on the way from us to the mailbox. They
        would hide what our own server had written above the topmost Received field that the check saw. They stay
        where no Received field stands below the verdict, because then the verdict may stand below all that the
        check saw. Only what is taught is read like this: of a message that comes in, whoever sent it may have
        written a verdict field. Without ``marks_mail`` that is so of what is taught too.
        """
        if not self.marks_mail:
            return self.read_incoming(raw)
        content = normalize_line_ends(raw)
        header_end = header_fields.body_offset(content[:MAX_HEADER_BYTES])
        own = _field_start(self.marks.own_field).search(content, 0, header_end)
        if own and _RECEIVED_FIELD.search(content, own.end(), header_end):
            later = header_fields.strip_fields(content[: own.start()], ("Received",))
            content = later + content[own.start() :]
        return self.read_stripped(self.strip(content))

    def strip(self, content: bytes) -> bytes:
        """Return ``content`` (CRLF line ends) without the fields that are removed from all that comes in."""
        return header_fields.strip_fields(content, self.marks.names)

    def read_stripped(self, content: bytes) -> Message:
        """Return the message in what ``strip`` returned, without the tag in its Subject."""
        tag = self.marks.subject_tag
        return Message(untag_subject(content, tag) if tag else content, self.limits)
