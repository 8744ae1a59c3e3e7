"""What is done to the header of a message that was checked, as data for every way out.

Rules: only this module knows which fields carry a verdict. A listener asks for the edits, and writes them in its
own protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Protocol

from nbstream.mail.header_edits import HeaderEdits
from nbstream.policy.clues_field import clues_field_value
from nbstream.policy.field_templates import SPAMASSASSIN_TEMPLATES, FieldTemplate
from nbstream.policy.filter_marks import OWN_FIELD, FilterMarks
from nbstream.policy.verdict import Verdict
from nbstream.policy.verdict_fields import clamped_log_odds, own_field_value

if TYPE_CHECKING:
    from nbstream.bayes.clues import Clue
    from nbstream.policy.verdict import Thresholds

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
