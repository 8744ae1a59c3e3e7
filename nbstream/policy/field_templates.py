"""The fields that carry a verdict: a name, and a value with placeholders such as ``{verdict}``.

Rules: a value is one line of ASCII. Nothing of the message enters it.
"""

from __future__ import annotations

import string
from collections.abc import Mapping
from dataclasses import dataclass

from nbstream.policy.filter_marks import SPAMASSASSIN_FIELDS
from nbstream.policy.verdict import Verdict

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
