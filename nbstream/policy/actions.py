"""What happens to a message because of its verdict: pass, redirect, quarantine, defer or reject.

Rules: no message is ever dropped. Actions are ordered, and the mildest comes first. Where one action has to hold
for recipients that would get different ones, it is the mildest of these; the order of the recipients does not
matter.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

_ADDRESS = re.compile(r"[!-;=?A-~]{1,64}@[!-;=?A-~]{1,253}")


class ActionKind(StrEnum):
    """The kinds of actions, the mildest first."""

    PASS = "pass"  # noqa: S105 - no password
    REDIRECT = "redirect"
    QUARANTINE = "quarantine"
    DEFER = "defer"
    REJECT = "reject"

    @property
    def takes_message(self) -> bool:
        """True where we accept the message; else the client keeps it."""
        return self not in {ActionKind.DEFER, ActionKind.REJECT}

    @property
    def severity_rank(self) -> int:
        """The place of the kind in the order of severity; 0 is the mildest."""
        return _SEVERITY_RANKS[self]


_SEVERITY_RANKS = {kind: rank for rank, kind in enumerate(ActionKind)}


@dataclass(frozen=True, slots=True)
class Action:
    """One action. ``address`` is where a message is redirected to; it is empty for the other kinds."""

    kind: ActionKind
    address: str = ""

    @classmethod
    def parse(cls, text: str) -> Action:
        """Return the action that ``text`` names. Raises ValueError, "must be ...", for any other text."""
        word, colon, address = text.partition(":")
        if word == ActionKind.REDIRECT:
            if not _ADDRESS.fullmatch(address):
                raise ValueError("must be redirect:ADDRESS with a mail address such as redirect:abuse@example.org")
            return cls(ActionKind.REDIRECT, address)
        if colon or word not in set(ActionKind):
            raise ValueError("must be pass, quarantine, redirect:ADDRESS, reject or defer")
        return cls(ActionKind(word))

    def __str__(self) -> str:
        return f"{self.kind}:{self.address}" if self.address else str(self.kind)
