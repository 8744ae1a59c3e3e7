"""Header fields by name: which may be written or removed, which other filters write, and which are ours.

Rules: a field that mail servers or mail programs act on, or that a signature covers, is never one of ours.
"""

from __future__ import annotations

import re
import string
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from nbstream.policy.verdict import Verdict

MAX_NAME_CHARACTERS = 60

_NAME = re.compile(rf"[A-Za-z][A-Za-z0-9-]{{0,{MAX_NAME_CHARACTERS - 1}}}")

# The registered fields of mail that carry addresses, its way, its content or its threads (RFC 5322, RFC 2045,
# RFC 2919, RFC 2369, RFC 6376, RFC 8601, RFC 8617), and what mailboxes go by.
_STRUCTURAL_NAMES = frozenset(
    {"from", "sender", "reply-to", "to", "cc", "bcc", "date", "subject", "comments", "keywords", "mime-version"}
    | {"message-id", "in-reply-to", "references", "return-path", "received", "received-spf", "delivered-to"}
    | {"authentication-results", "autocrypt", "auto-submitted", "precedence", "encrypted", "original-recipient"}
    | {"disposition-notification-to", "errors-to", "envelope-to", "status", "x-status", "x-original-to", "x-uidl"}
    | {"x-loop"}
)
_STRUCTURAL_PREFIXES = ("resent-", "content-", "list-", "dkim-", "domainkey-", "arc-", "original-", "x-mozilla-")


def require_own_name(name: str) -> str:
    """Return the name of a field that nbstream may write or remove. Raises ValueError, "must be ..."."""
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"must be the name of a header field: letters, digits and -, {MAX_NAME_CHARACTERS} at most"
        )
    lower = name.lower()
    if lower in _STRUCTURAL_NAMES or lower.startswith(_STRUCTURAL_PREFIXES):
        raise ValueError("must be a field that no mail server or mail program acts on, such as X-Spam")
    return name


# What nbstream writes into mail, and therefore removes from all that comes in and all that is taught.
#
# Rules: whoever sent a message may have written the same. A filter beside this one needs other names, or each
# would remove what the other has written.

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


# The fields that carry a verdict: a name, and a value with placeholders such as ``{verdict}``.
#
# Rules: a value is one line of ASCII. Nothing of the message enters it.

PLACEHOLDERS = (
    *("verdict", "flag", "probability", "score", "required"),
    *("stars", "id", "reason", "model"),
)
"""What a value may contain in braces."""


MAX_TEMPLATE_CHARACTERS = 200


ALL_VERDICTS = frozenset(Verdict)


_MAX_LINE_CHARACTERS = 998  # RFC 5322 2.1.1


_ALLOWED_VALUE = (
    f"must be one line of at most {MAX_TEMPLATE_CHARACTERS} printable ASCII characters, "
    f"with no placeholders but {{{'} {'.join(PLACEHOLDERS)}}} (a brace itself is doubled)"
)


@dataclass(frozen=True, slots=True)
class FieldTemplate:
    """A field that is written for messages with one of these verdicts."""

    name: str
    value: str
    verdicts: frozenset[Verdict] = ALL_VERDICTS

    @property
    def placeholders(self) -> frozenset[str]:
        """The placeholders in the value."""
        return frozenset(name for _, name, _, _ in string.Formatter().parse(self.value) if name)

    @property
    def shows_stars(self) -> bool:
        """Whether the field shows the score as stars, which scripts file by."""
        return "stars" in self.placeholders

    @property
    def verdict_names(self) -> tuple[str, ...]:
        """The verdicts in their order, as the configuration names them."""
        return tuple(verdict.value for verdict in Verdict if verdict in self.verdicts)

    def render(self, values: Mapping[str, str]) -> tuple[str, str]:
        """Return name and value; ``values`` has the placeholders of the value."""
        value = self.value.format_map(values)
        return self.name, value[: _MAX_LINE_CHARACTERS - len(self.name) - 2]


def require_field_value(value: str) -> str:
    """Return the template of a value. Raises ValueError, "must be ..."."""
    try:
        pieces = list(string.Formatter().parse(value))
    except ValueError:
        raise ValueError(_ALLOWED_VALUE) from None
    names = [piece[1:] for piece in pieces if piece[1] is not None]
    is_plain = all(name in PLACEHOLDERS and not spec and not conversion for name, spec, conversion in names)
    is_line = value.isascii() and value.isprintable() and len(value) <= MAX_TEMPLATE_CHARACTERS
    if not is_plain or not is_line:
        raise ValueError(_ALLOWED_VALUE)
    return value


_FLAG, _STATUS, _LEVEL = SPAMASSASSIN_FIELDS


SPAMASSASSIN_TEMPLATES = (
    FieldTemplate(_FLAG, "YES", frozenset(verdict for verdict in Verdict if verdict.is_spam)),
    FieldTemplate(_STATUS, "{flag}, score={score} required={required}"),
    FieldTemplate(_LEVEL, "{stars}"),
)
"""The default: SpamAssassin's fields."""
