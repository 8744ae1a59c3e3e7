"""The verdict of another filter, read from a header field that it wrote into stored mail.

Rules: pure, and nothing raises. A sender can write such a field too. Therefore all copies of it have to agree: a
message whose copies contradict each other has no verdict.
"""

from __future__ import annotations

import re
from types import MappingProxyType

from nbstream.mail import header_fields
from nbstream.mail.lines import normalize_line_ends
from nbstream.policy.verdict import Verdict

_WORDS = MappingProxyType(
    {
        **dict.fromkeys(("no", "false", "ham", "innocent", "whitelisted", "greylist", "soft"), Verdict.HAM),
        **dict.fromkeys(("yes", "true", "spam", "virus", "blacklisted", "add", "rewrite"), Verdict.SPAM),
        **dict.fromkeys(("quarantine", "discard", "reject"), Verdict.SPAM),
        "unsure": Verdict.UNSURE,
    }
)
"""What the first words of a value say, in lower case; "no action" and "add header" are actions of rspamd."""

_FIRST_WORD = re.compile(rb"\s*(?:[\w.-]+:\s*)?([A-Za-z]+)")  # X-Spamd-Result begins with "default: "


def read_verdict(raw: bytes, field_name: str) -> Verdict | None:
    """Return what the fields of this name say of a message: ham, unsure or spam, and None for no verdict."""
    message = normalize_line_ends(raw)
    fields = header_fields.parse_fields(message, header_fields.body_offset(message))
    values = [field.value for field in fields if field.name == field_name.lower()]
    verdicts = {_verdict_of(value) for value in values}
    return verdicts.pop() if len(verdicts) == 1 else None


def _verdict_of(value: bytes) -> Verdict | None:
    word = _FIRST_WORD.match(value)
    return _WORDS.get(word[1].decode("ascii").lower()) if word else None
