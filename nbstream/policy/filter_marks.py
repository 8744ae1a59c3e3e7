"""What nbstream writes into mail, and therefore removes from all that comes in and all that is taught.

Rules: whoever sent a message may have written the same. A filter beside this one needs other names, or each would
remove what the other has written.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

OWN_FIELD = "X-Nbstream"
"""The name of our own field where the configuration gives no other."""
QUARANTINE_FIELD = "X-Nbstream-Quarantine"
"""The first field of a file in the quarantine: what the quarantine has to know of the message."""
MAX_TAG_BYTES = 44
"""The longest tag of the Subject, in UTF-8. With a space after it, one encoded word holds it (RFC 2047 2)."""
SPAMASSASSIN_FIELDS = ("X-Spam-Flag", "X-Spam-Status", "X-Spam-Level")
"""SpamAssassin's fields, which sieve scripts and mail programs read."""


@dataclass(frozen=True)
class FilterMarks:
    """The names of the fields that this filter writes, and its tag in the Subject.

    ``own_field`` says everything and carries the id; further names begin with it. ``verdict_fields`` are the other
    ones. ``subject_tag`` is empty where there is none.
    """

    own_field: str = OWN_FIELD
    verdict_fields: tuple[str, ...] = SPAMASSASSIN_FIELDS
    subject_tag: str = ""

    @property
    def clues_field(self) -> str:
        """The field of the strongest clues."""
        return f"{self.own_field}-Clues"

    @property
    def guard_field(self) -> str:
        """The empty field before a first line that continues no field."""
        return f"{self.own_field}-Continued"

    @property
    def recipient_field(self) -> str:
        """The field of the recipient that a redirected message was sent to."""
        return f"{self.own_field}-Recipient"

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of all fields: every copy that arrives from outside is removed."""
        own = (self.own_field, self.clues_field, self.guard_field, self.recipient_field, QUARANTINE_FIELD)
        return (*self.verdict_fields, *own)
