"""The header fields of a checked message: which may be written or removed, what they say, and the edits.

Rules: only this module knows which fields carry a verdict. A listener asks for the edits, and writes them in its
own protocol. A field that mail servers or mail programs act on, or that a signature covers, is never one of ours.
"""

from __future__ import annotations

import math
import re
import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Protocol

from nbstream.mail.header_edits import HeaderEdits
from nbstream.policy.verdict import Verdict

if TYPE_CHECKING:
    from nbstream.bayes.clues import Clue
    from nbstream.policy.verdict import Thresholds

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


# The verdict in numbers and words for programs: scores that they compare, and the value of our own field.
#
# Rules: all values are ASCII, and nothing of the message enters them.

_OWN_ID = re.compile(r";\s*id=([a-z2-7]{24})\Z")
_SCORE_LIMIT = 99.9


def clamped_log_odds(probability: float) -> float:
    """Return ln(P / (1 - P)), clamped to ±99.9."""
    if probability <= 0.0:
        return -_SCORE_LIMIT
    if probability >= 1.0:
        return _SCORE_LIMIT
    return max(-_SCORE_LIMIT, min(_SCORE_LIMIT, math.log(probability / (1.0 - probability))))


def comparable_scores(verdict: Verdict, probability: float, thresholds: Thresholds) -> tuple[float, float]:
    """Return ln(P / (1 - P)) of a message and of the threshold for spam, for programs that compare the two.

    Both have one decimal. The first is no less than the second exactly where the verdict is spam. Without a
    correction that would not always hold: a model that is still learning calls nothing spam whatever P is, a
    threshold may be out of reach, and rounding may make the two equal.
    """
    score, required = round(clamped_log_odds(probability), 1), round(clamped_log_odds(thresholds.spam), 1)
    nearest = max(score, required) if verdict.is_spam else min(score, round(required - 0.1, 1))
    return nearest + 0.0, required + 0.0  # no -0.0


def parse_own_id(value: str) -> str | None:
    """Return the id in the value of our own field, or None where the value was not written by us."""
    match = _OWN_ID.search(value)
    return match[1] if match else None


def own_field_value(
    message_id: str, verdict: Verdict, probability: float, reason: str, model: str, policy: str = ""
) -> str:
    """Return the value of our own field.

    Verdict, probability, reason, policy, model, and the id of the message.
    """
    policy_part = f'\r\n\tpolicy="{policy}";' if policy else ""
    return (
        f'{verdict}; probability={probability:.6f}; reason="{reason}";{policy_part}'
        f"\r\n\tmodel={model}; id={message_id}"
    )


# The header field with the strongest clues: ``subject:prize +4.12, from:ann@example.org -2.05``.
#
# Rules: the writer of a message chooses its tokens. Therefore only letters, digits and a few marks of a token go
# into the field as they are, and every other byte as ``%`` and two hexadecimal digits. Such a token can neither
# end a line, nor open a comment, a string, a tag or an encoded word, nor hold a separator of this field or of
# the verdict's field. A field has at most ``MAX_CLUES`` clues, one on each line, lines of at most 78 characters
# (RFC 5322 2.1.1), and at most ``MAX_VALUE_BYTES`` in all.

MAX_CLUES = 8
MAX_VALUE_BYTES = 500
"""The longest value in bytes, with its folds."""

# The characters of a token as it is written: with these, the first line has at most 77, name of the field
# included.
_MAX_TOKEN_CHARACTERS = 48
_ELLIPSIS = "..."
_FOLD = ",\r\n\t"
_SAFE_BYTES = (string.ascii_letters + string.digits + "!$'*+-./:>@^_|~").encode()
_ESCAPED_BYTES = [chr(byte) if byte in _SAFE_BYTES else f"%{byte:02X}" for byte in range(256)]


def clues_field_value(clues: Sequence[Clue]) -> str:
    """Return the value of the field for ``clues``, the strongest first. It is empty where there are none."""
    return _FOLD.join(
        f"{escape_token(clue.token)} {_format_log_ratio(clue.log_ratio)}" for clue in clues[:MAX_CLUES]
    )


def escape_token(token: bytes) -> str:
    """Return the token escaped, and cut between two of its bytes to at most 48 characters, without a space."""
    if len(token) <= _MAX_TOKEN_CHARACTERS and not token.translate(None, _SAFE_BYTES):
        return token.decode("ascii")  # most tokens need no escape, and this way is much shorter
    escaped_bytes = [_ESCAPED_BYTES[byte] for byte in token[:_MAX_TOKEN_CHARACTERS]]
    if len(token) <= _MAX_TOKEN_CHARACTERS and sum(map(len, escaped_bytes)) <= _MAX_TOKEN_CHARACTERS:
        return "".join(escaped_bytes)
    max_length = _MAX_TOKEN_CHARACTERS - len(_ELLIPSIS)
    start = ""
    for escaped_byte in escaped_bytes:
        if len(start) + len(escaped_byte) > max_length:
            break
        start += escaped_byte
    return start + _ELLIPSIS


def _format_log_ratio(log_ratio: float) -> str:
    """Return the log-ratio in nats with two decimals, in at most nine characters."""
    return f"{log_ratio:+.2f}" if abs(log_ratio) < 10_000 else f"{log_ratio:+.1e}"


_MAX_STARS = 50
_MAX_LINE_BYTES = 998  # RFC 5322 2.1.1


class CheckedMail(Protocol):
    """What the fields say of a message: the result of its check."""

    @property
    def id(self) -> str:
        """The key of the message."""

    @property
    def verdict(self) -> Verdict:
        """The verdict."""

    @property
    def probability(self) -> float:
        """P(spam)."""

    @property
    def reason(self) -> str:
        """Why the verdict is what it is, in ASCII."""

    @property
    def thresholds(self) -> Thresholds:
        """The thresholds that decided."""

    @property
    def clues(self) -> Sequence[Clue]:
        """The clues, the strongest first."""


@dataclass(frozen=True)
class HeaderPolicy:
    """Which fields are written, and which are removed.

    ``model_name`` is the model that the fields name. ``shows_clues``: the header names the strongest clues.
    ``templates`` are the fields beside our own, ``removals`` the names of other filters' fields that are removed
    by verdict. ``subject_tag`` is put before the Subject of spam; it is empty where there is none. ``observes``:
    this is a trial. Nothing but our own field is written, nothing else is changed, and no action is taken.
    """

    model_name: str
    shows_clues: bool = True
    own_field: str = OWN_FIELD
    templates: tuple[FieldTemplate, ...] = SPAMASSASSIN_TEMPLATES
    removals: Mapping[Verdict, tuple[str, ...]] = field(default_factory=dict)
    subject_tag: str = ""
    observes: bool = False

    @cached_property
    def marks(self) -> FilterMarks:
        """What this filter writes into mail, and therefore removes from all that comes in."""
        templates = () if self.observes else self.templates
        return FilterMarks(
            self.own_field, tuple(dict.fromkeys(template.name for template in templates)), self.subject_tag
        )

    @property
    def removed_from_incoming(self) -> tuple[str, ...]:
        """The names of the fields that are removed from all that comes in, whoever wrote them."""
        return self.marks.names

    @cached_property
    def _by_verdict(self) -> Mapping[Verdict, tuple[tuple[FieldTemplate, ...], frozenset[str], HeaderEdits]]:
        """The templates of each verdict, what they need of the check, and the edits without the added fields."""
        return {verdict: self._verdict_edits(verdict) for verdict in Verdict}

    def _verdict_edits(self, verdict: Verdict) -> tuple[tuple[FieldTemplate, ...], frozenset[str], HeaderEdits]:
        templates = tuple(template for template in self.templates if verdict in template.verdicts)
        placeholders = frozenset(chain.from_iterable(template.placeholders for template in templates)) - {"model"}
        edits = HeaderEdits(
            removed_names=self.marks.names + self.removals.get(verdict, ()),
            guard=self.marks.guard_field,
            subject_tag=self.subject_tag if verdict.is_spam else "",
        )
        return templates, placeholders, edits

    @cached_property
    def removal_edits(self) -> HeaderEdits:
        """The edits of a message without a verdict: what came from outside as one of our fields is removed."""
        return HeaderEdits(removed_names=self.marks.names, guard=self.marks.guard_field)

    def edits(self, check: CheckedMail, treatment: str = "", redirected_from: str = "") -> HeaderEdits:
        """Return the edits for a message with this check.

        ``treatment`` is the name of the treatment that decided, in characters that are fit for a header field; it
        is empty where all recipients have the same one. ``redirected_from`` is the recipient of a message that is
        redirected, where it had one alone: with several, whoever reads the message would learn of the others, and
        some of them may be recipients by Bcc.
        """
        own = (self.own_field, self._own_value(check, treatment))
        if self.observes:
            return replace(self.removal_edits, added=(own,))
        templates, placeholders, edits = self._by_verdict[check.verdict]
        values = {name: _PLACEHOLDER_VALUES[name](check) for name in placeholders}
        values["model"] = self.model_name
        added = [template.render(values) for template in templates]
        added.append(own)
        if self.shows_clues and check.clues:
            added.append((self.marks.clues_field, clues_field_value(check.clues)))
        if redirected_from and _fits_field(self.marks.recipient_field, redirected_from):
            added.append((self.marks.recipient_field, redirected_from))
        return HeaderEdits(tuple(added), edits.removed_names, edits.guard, edits.subject_tag)

    def release_edits(self, check: CheckedMail) -> HeaderEdits:
        """Return the edits for a message that a person releases as ham: no field shows its score as stars."""
        kept = tuple(template for template in self.templates if not template.shows_stars)
        edits = replace(self, templates=kept, shows_clues=False).edits(check)
        return replace(edits, removed_names=self.marks.names)

    def _own_value(self, check: CheckedMail, treatment: str) -> str:
        return own_field_value(
            check.id, check.verdict, check.probability, check.reason, self.model_name, treatment
        )


def _stars(check: CheckedMail) -> str:
    return "*" * min(_MAX_STARS, max(0, int(clamped_log_odds(check.probability))))


_PLACEHOLDER_VALUES: Mapping[str, Callable[[CheckedMail], str]] = {
    "verdict": lambda check: check.verdict.value,
    "flag": lambda check: "Yes" if check.verdict.is_spam else "No",
    "probability": lambda check: f"{check.probability:.6f}",
    "score": lambda check: f"{clamped_log_odds(check.probability):.1f}",
    "required": lambda check: f"{clamped_log_odds(check.thresholds.spam):.1f}",
    "stars": _stars,
    "id": lambda check: check.id,
    "reason": lambda check: check.reason,
}


def _fits_field(name: str, address: str) -> bool:
    """Return whether the address can be the value of a field: one that is not ASCII is left out."""
    fits = len(name) + 2 + len(address) <= _MAX_LINE_BYTES
    return fits and address.isascii() and address.isprintable()
