"""The older tokenizer whose models can be migrated, and what a migrated model records about it.

A ledger entry keeps the very tokens that were learned, so what an older version learned can still be unlearned
exactly. Where the key of a message differs now, the message is looked up under its former key too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

FIELD = "migrated"
"""The field of a model's schema that says from which tokenizer the model was migrated, and when (Unix time)."""

FORMER_TOKENIZER = "2"
"""The tokenizer of nbstream 0.1.0. It differs from this one in encoded words on CPython before 3.11.5, and in
characters that Unicode 14.0 does not have."""


def is_former(stored: Mapping[str, str], ours: Mapping[str, str]) -> bool:
    """Whether the signature ``stored`` differs from ``ours`` in nothing but a tokenizer that can be migrated."""
    return {**ours, "tokenizer": FORMER_TOKENIZER} == {name: stored.get(name, "") for name in ours}


def packed(migrated_at: float) -> str:
    """The value of ``FIELD`` after a migration at that Unix time."""
    return f"{FORMER_TOKENIZER} {migrated_at!r}"
