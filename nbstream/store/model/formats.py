"""The schema of a model, and which stored forms may be written into it.

Rules: this release reads all that a model of either schema contains. It writes a form that the previous release
cannot read only into a model of schema 3, which that release refuses. A new model has schema 3; a model that the
previous release signed has schema 2 until ``nbstream migrate``. A process reads the schema when it opens the model
and keeps to it: so what it writes after a migration may be of schema 2, never the other way round, since a model
does not go back while a daemon uses it.
"""

from __future__ import annotations

from dataclasses import dataclass

SCHEMA_VERSION = 3
"""Raised whenever keys, stored forms or their meaning change."""

FORMER_SCHEMA = 2
"""The schema of nbstream 0.1.0 to 0.4.0."""


@dataclass(frozen=True, slots=True)
class ModelFormats:
    """Which forms may be written into a model of this ``schema``; before it is known, those of the former one."""

    schema: int = FORMER_SCHEMA

    @property
    def zstd_messages(self) -> bool:
        """Whether checked messages may be compressed with Zstandard; else they are deflated."""
        return self.schema >= SCHEMA_VERSION

    @property
    def batch_lessons(self) -> bool:
        """Whether the lessons of a batch may be written as one change; else each is a change of its own."""
        return self.schema >= SCHEMA_VERSION
