"""The settings of the filter: whose results of authentication count, and what is learned without people."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BeforeValidator, Field, Strict

from nbstream.settings.values import Probability, Section

_AUTHSERV_ID = re.compile(r"[^\s\x00-\x1f\x7f;()\"\\=/@,<>\[\]]{1,253}")


def read_authserv_id(value: object) -> str:
    """Read the identifier of a server in Authentication-Results (RFC 8601, section 2.5), in lower case."""
    if not isinstance(value, str) or _AUTHSERV_ID.fullmatch(value) is None:
        raise ValueError("must be the name that a server writes first in Authentication-Results: mx.example.org")
    return value.lower()


AuthservIds = Annotated[
    tuple[Annotated[str, BeforeValidator(read_authserv_id)], ...], Strict(False), Field(max_length=100)
]


class AutolearnSettings(Section):
    """Autolearning: learning without people what a check is sure of, in a layer of its own."""

    ham: Probability = 0.001
    """A message with at most this P(spam) is learned as ham. It must be below ``verdict.unsure``."""

    spam: Probability = 0.999
    """A message with at least this P(spam) is learned as spam. It must be at least ``verdict.spam``."""

    def label(self, probability: float) -> str | None:
        """Return the label that a message with this P(spam) is learned as; None where the check is not sure."""
        if probability >= self.spam:
            return "spam"
        return "ham" if probability <= self.ham else None
