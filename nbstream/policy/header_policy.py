"""What is done to the header of a message that was checked, as data for every way out.

Rules: only this module knows which fields carry a verdict. A listener asks for the edits, and writes them in its
own protocol.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from nbstream.mail.header_edits import HeaderEdits
from nbstream.policy.verdict_fields import GUARD_FIELD, RECIPIENT_FIELD, VERDICT_FIELDS, render_verdict_fields

if TYPE_CHECKING:
    from nbstream.bayes.clues import Clue
    from nbstream.policy.verdict import Thresholds, Verdict

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


@dataclass(frozen=True, slots=True)
class HeaderPolicy:
    """Which fields are written, and which are removed.

    ``model_name`` is the model that the fields name. ``shows_clues``: the header names the strongest clues.
    """

    model_name: str
    shows_clues: bool = True

    @property
    def removed_from_incoming(self) -> tuple[str, ...]:
        """The names of the fields that are removed from all that comes in, whoever wrote them."""
        return VERDICT_FIELDS

    def edits(self, check: CheckedMail | None, treatment: str = "") -> HeaderEdits:
        """Return the edits for a message with this check; None where there is none and the message passes.

        ``treatment`` is the name of the treatment that decided, in characters that are fit for a header field; it
        is empty where all recipients have the same one.
        """
        if check is None:
            return HeaderEdits((), self.removed_from_incoming, GUARD_FIELD)
        fields = render_verdict_fields(
            check.id,
            check.verdict,
            check.probability,
            check.reason,
            model=self.model_name,
            thresholds=check.thresholds,
            policy=treatment,
            clues=check.clues if self.shows_clues else (),
        )
        return HeaderEdits(tuple(fields), self.removed_from_incoming, GUARD_FIELD)


def redirected_edits(edits: HeaderEdits, recipients: Sequence[str]) -> HeaderEdits:
    """Return the edits of a message that goes to another address instead of to these recipients.

    The message names its recipient only where it had one. With several of them, whoever reads the message would
    learn of the others, and some of them may be recipients by Bcc. A field is ASCII: an address that is not is
    left out.
    """
    if len(recipients) != 1:
        return edits
    (address,) = recipients
    fits = len(RECIPIENT_FIELD) + 2 + len(address) <= _MAX_LINE_BYTES
    if not (address.isascii() and address.isprintable() and fits):
        return edits
    return replace(edits, added=(*edits.added, (RECIPIENT_FIELD, address)))
