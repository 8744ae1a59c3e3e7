"""What is remembered of a message that was checked: enough to learn it without seeing it again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nbstream.tokens.tokenizer import Tokens


@dataclass(frozen=True, slots=True)
class Checked:
    """A message by its key (the ``id`` in its verdict header), with its tokens and what was thought of it."""

    key: str
    tokens: Tokens
    probability: float
    verdict: str
