"""The older tokenizers whose models can be migrated, and what a migrated model records about them.

A ledger entry keeps the very tokens that were learned, so what an older version learned can still be unlearned
exactly. Where the key of a message differs now, the message is looked up under its former key too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

FIELD = "migrated"
"""The field of a model's schema that says from which tokenizers the model was migrated, and when (Unix time).

It has a record of each migration, such as ``2 1700000000.0``, with a comma between two records.
"""

FORMER_TOKENIZERS = ("2", "3", "4")
"""The tokenizers of nbstream 0.1.0, 0.2.0 and 0.3.0. Most of their tokens are made today too: their counts stay.

The one of 0.1.0 differs in encoded words on CPython before 3.11.5, and in characters that Unicode 14.0 does not
have. Both differ from later ones in the tokens of signatures and in which tokens of a long message are taken. The
one of 0.3.0 differs from this one in text that is made to cost much (docs/explanation/limits-of-work.md).
"""


def is_former(stored: Mapping[str, str], ours: Mapping[str, str]) -> bool:
    """Whether the signature ``stored`` differs from ``ours`` in nothing but a tokenizer that can be migrated."""
    former = stored.get("tokenizer", "")
    return former in FORMER_TOKENIZERS and {**ours, "tokenizer": former} == {
        name: stored.get(name, "") for name in ours
    }


def after_migration(stored: Mapping[str, str], ours: Mapping[str, str], at: float) -> dict[str, str]:
    """Return the tokenizer and ``FIELD`` after a migration at that Unix time of a model with this signature."""
    records = [*_records(stored), f"{stored['tokenizer']} {at!r}"]
    return {"tokenizer": ours["tokenizer"], FIELD: ",".join(records)}


def before_migration(stored: Mapping[str, str]) -> dict[str, str]:
    """Return the tokenizer and ``FIELD`` that a migrated model had before its last migration.

    Without ``FIELD`` in the result that was its first migration. Raises ``KeyError`` for a model that was never
    migrated.
    """
    *earlier, last = stored[FIELD].split(",")
    tokenizer = {"tokenizer": last.partition(" ")[0]}
    return {**tokenizer, FIELD: ",".join(earlier)} if earlier else tokenizer


def _records(stored: Mapping[str, str]) -> list[str]:
    return stored[FIELD].split(",") if FIELD in stored else []
