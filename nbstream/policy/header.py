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
from functools import cached_property, lru_cache
from itertools import chain
from typing import TYPE_CHECKING

from nbstream.mail import header_fields
from nbstream.mail.header_edits import HeaderEdits, untag_subject
from nbstream.mail.header_fields import MAX_HEADER_BYTES
from nbstream.mail.lines import normalize_line_ends
from nbstream.mail.message import Message
from nbstream.mail.mime import MessageLimits
from nbstream.policy.settings import OWN_FIELD, SPAMASSASSIN_FIELDS, HeaderFieldSettings, HeadersSettings
from nbstream.policy.verdict import Verdict

if TYPE_CHECKING:
    from nbstream.bayes.clues import Clue
    from nbstream.bayes.kinds import KindScores
    from nbstream.policy.check import Check
    from nbstream.policy.verdict import Thresholds


# What nbstream writes into mail, and therefore removes from all that comes in and all that is taught.
#
# Rules: whoever sent a message may have written the same. A filter beside this one needs other names, or each
# would remove what the other has written.

QUARANTINE_FIELD = "X-Nbstream-Quarantine"
"""The first field of a file in the quarantine: what the quarantine has to know of the message."""


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
    def kind_field(self) -> str:
        """The field of the kind."""
        return f"{self.own_field}-Kind"

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
        own = (self.own_field, self.clues_field, self.kind_field, self.guard_field, self.recipient_field)
        return (*self.verdict_fields, *own, QUARANTINE_FIELD)


# The verdict in numbers and words for programs: scores that they compare, and the value of our own field.
#
# Rules: all values are ASCII, and nothing of the message enters them.

_OWN_ID = re.compile(r";\s*id=([a-z2-7]{24})\Z")
_SCORE_LIMIT = 99.9


@lru_cache(maxsize=128)  # a message asks for the same few again and again
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
    return _FOLD.join([f"{escape_token(token)} {_format_log_ratio(ratio)}" for token, ratio in clues[:MAX_CLUES]])


def escape_token(token: bytes) -> str:
    """Return the token escaped, and cut between two of its bytes to at most 48 characters, without a space."""
    escaped = token[: _MAX_TOKEN_CHARACTERS + 1].decode("latin-1").translate(_ESCAPED_BYTES)
    if len(escaped) <= _MAX_TOKEN_CHARACTERS:
        return escaped
    max_length = _MAX_TOKEN_CHARACTERS - len(_ELLIPSIS)
    start = ""
    for escaped_byte in map(_ESCAPED_BYTES.__getitem__, token):
        if len(start) + len(escaped_byte) > max_length:
            break
        start += escaped_byte
    return start + _ELLIPSIS


def _format_log_ratio(log_ratio: float) -> str:
    """Return the log-ratio in nats with two decimals, in at most nine characters."""
    return f"{log_ratio:+.2f}" if abs(log_ratio) < 10_000 else f"{log_ratio:+.1e}"


def kind_field_value(scores: KindScores) -> str:
    """Return the value of the field of the kind: ``newsletter; probability=0.973106``."""
    return f"{scores.kind}; probability={scores.probabilities[scores.kind or '']:.6f}"


_MAX_STARS = 50
_MAX_LINE_BYTES = 998  # RFC 5322 2.1.1


@dataclass(frozen=True)
class HeaderPolicy:
    """Which fields are written, and which are removed: the section ``headers``, for one model.

    Where the section observes, this is a trial: nothing but our own field is written, nothing else is changed, and
    no action is taken.
    """

    model_name: str
    headers: HeadersSettings = field(default_factory=HeadersSettings)

    @property
    def observes(self) -> bool:
        """Whether this is a trial."""
        return self.headers.mode == "observe"

    @cached_property
    def marks(self) -> FilterMarks:
        """What this filter writes into mail, and therefore removes from all that comes in."""
        names = [] if self.observes else [field.name for field in self.headers.fields]
        return FilterMarks(self.headers.own_field, tuple(dict.fromkeys(names)), self.headers.subject_tag or "")

    @property
    def removed_from_incoming(self) -> tuple[str, ...]:
        """The names of the fields that are removed from all that comes in, whoever wrote them."""
        return self.marks.names

    @cached_property
    def _by_verdict(self) -> Mapping[Verdict, tuple[tuple[HeaderFieldSettings, ...], frozenset[str], HeaderEdits]]:
        """The fields of each verdict, what they need of the check, and the edits without the added fields."""
        return {verdict: self._verdict_edits(verdict) for verdict in Verdict}

    def _verdict_edits(
        self, verdict: Verdict
    ) -> tuple[tuple[HeaderFieldSettings, ...], frozenset[str], HeaderEdits]:
        fields = tuple(field for field in self.headers.fields if verdict in field.verdicts)
        placeholders = frozenset(chain.from_iterable(field.placeholders for field in fields)) - {"model"}
        edits = HeaderEdits(
            removed_names=self.marks.names,
            guard=self.marks.guard_field,
            subject_tag=self.marks.subject_tag if verdict.is_spam else "",
        )
        return fields, placeholders, edits

    @cached_property
    def removal_edits(self) -> HeaderEdits:
        """The edits of a message without a verdict: what came from outside as one of our fields is removed."""
        return HeaderEdits(removed_names=self.marks.names, guard=self.marks.guard_field)

    def edits(self, check: Check, rule: str = "", redirected_from: str = "") -> HeaderEdits:
        """Return the edits for a message with this check.

        ``rule`` is the name of the rule that decided, in characters that are fit for a header field; it is empty
        where the same one holds for all recipients. ``redirected_from`` is the recipient of a message that is
        redirected, where it had one alone: with several, whoever reads the message would learn of the others, and
        some of them may be recipients by Bcc.
        """
        own = (self.headers.own_field, self._own_value(check, rule))
        if self.observes:
            return self.removal_edits._replace(added=(own,))
        fields, placeholders, edits = self._by_verdict[check.verdict]
        values = {name: _PLACEHOLDER_VALUES[name](check) for name in placeholders}
        values["model"] = self.model_name
        # Scripts file by stars: what a list lets pass would end among spam all the same.
        hides_stars = check.listed is not None and check.listed.lets_pass
        added = [field.render(values) for field in fields if not (hides_stars and field.shows_stars)]
        added.append(own)
        if self.headers.clues and check.clues:
            added.append((self.marks.clues_field, clues_field_value(check.clues)))
        if check.kind and check.kind.kind:
            added.append((self.marks.kind_field, kind_field_value(check.kind)))
        if redirected_from and _fits_field(self.marks.recipient_field, redirected_from):
            added.append((self.marks.recipient_field, redirected_from))
        return HeaderEdits(tuple(added), edits.removed_names, edits.guard, edits.subject_tag)

    def release_edits(self, check: Check) -> HeaderEdits:
        """Return the edits for a message that a person releases as ham: no field shows its score as stars."""
        kept = tuple(field for field in self.headers.fields if not field.shows_stars)
        released = replace(self, headers=self.headers.model_copy(update={"fields": kept, "clues": False}))
        edits = released.edits(check)
        return edits._replace(removed_names=self.marks.names)

    def _own_value(self, check: Check, rule: str) -> str:
        # No name of an own model: a field is read by all recipients of its message.
        model = f"{self.model_name}; own={check.own}" if check.own else self.model_name
        return own_field_value(check.id, check.verdict, check.probability, check.reason, model, rule)


def _stars(check: Check) -> str:
    return "*" * min(_MAX_STARS, max(0, int(clamped_log_odds(check.probability))))


_PLACEHOLDER_VALUES: Mapping[str, Callable[[Check], str]] = {
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


# From the bytes of a message, as they came in, to the message that is looked at.
#
# Rules: every way in ends here, so that the same message has the same tokens and the same key whichever way it
# came. Line ends become CRLF. The fields that carry our verdict, and the tag in the Subject, are removed, since
# whoever sent the message may have written them.


@lru_cache(maxsize=4)
def _field_start(name: str) -> re.Pattern[bytes]:
    return re.compile(rb"(?i)\n%s[ \t]*:" % re.escape(name.encode("ascii")))  # with the line feed before it


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
        header = b"\n" + content[:header_end]
        own = _field_start(self.marks.own_field).search(header)
        if own and _RECEIVED_FIELD.search(header, own.end()):
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
