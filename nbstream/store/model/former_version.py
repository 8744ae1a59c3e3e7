"""The older tokenizers and schemas whose models can be migrated, and what a migrated model records about them.

A migration to this version is one step, from whatever version. The way back has a step for each version that
changed something: first the former schema, then the tokenizer before each migration.

A ledger entry keeps the very tokens that were learned, so what an older version learned can still be unlearned
exactly. Where the key of a message differs now, the message is looked up under its former key too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbstream.store.model.formats import FORMER_SCHEMA

if TYPE_CHECKING:
    from collections.abc import Mapping

FIELD = "migrated"
"""The field of a model's schema that says from which tokenizers the model was migrated, and when (Unix time).

It has a record of each migration, such as ``2 1700000000.0``, with a comma between two records. A migration that
changed the schema alone leaves no record, since the way back to the former schema is always the same.
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
    """Return the schema, the tokenizer and ``FIELD`` after a migration of a model with the signature ``stored``.

    ``at`` is the time of the migration (Unix time). Without ``FIELD`` in the result it has no records.
    """
    records = _records(stored)
    if stored["tokenizer"] != ours["tokenizer"]:
        records.append(f"{stored['tokenizer']} {at!r}")
    return _migrated_fields(ours["schema"], ours["tokenizer"], records)


def before_migration(stored: Mapping[str, str]) -> dict[str, str]:
    """Return the schema, the tokenizer and ``FIELD`` one step back: the former schema, or the former tokenizer.

    Without ``FIELD`` in the result there is no migration left. Raises ``KeyError`` for a model of the former
    schema that was never migrated.
    """
    if stored["schema"] != str(FORMER_SCHEMA):
        return _migrated_fields(str(FORMER_SCHEMA), stored["tokenizer"], _records(stored))
    *earlier, last = stored[FIELD].split(",")
    return _migrated_fields(stored["schema"], last.partition(" ")[0], earlier)


def _migrated_fields(schema: str, tokenizer: str, records: list[str]) -> dict[str, str]:
    fields = {"schema": schema, "tokenizer": tokenizer}
    return {**fields, FIELD: ",".join(records)} if records else fields


def _records(stored: Mapping[str, str]) -> list[str]:
    return stored[FIELD].split(",") if FIELD in stored else []
