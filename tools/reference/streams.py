"""The reference of the Redis Streams: their keys, and the fields of entries and answers."""

from __future__ import annotations

from collections.abc import Mapping

from nbstream.listeners.stream.codec import ANSWER_FIELDS, ENTRY_FIELDS
from nbstream.store.model.keys import ModelKeys
from tools.reference.markup import NOTICE, paragraph, table

_KEYS = ModelKeys("MODEL")


def page() -> str:
    """Return the page as Markdown."""
    keys = [(f"`{getattr(_KEYS, name)}`", _meaning(name)) for name in ("incoming", "outgoing", "dead_letters")]
    return (
        f"{NOTICE}{_INTRODUCTION}\n{table(('key', 'meaning'), keys)}"
        f"\n## Fields of an entry\n{_ENTRY}\n{_fields(ENTRY_FIELDS)}"
        f"\n## Fields of an answer\n{_ANSWER}\n{_fields(ANSWER_FIELDS)}"
    )


def _meaning(name: str) -> str:
    return paragraph(getattr(ModelKeys, name).__doc__ or "")


def _fields(meanings: Mapping[str, str]) -> str:
    return table(("field", "meaning"), [(f"`{name}`", meaning) for name, meaning in meanings.items()])


_INTRODUCTION = """
# Redis Streams

Programs add entries to one stream in nbstream's Redis and read the answers in another one. The listener is off by
default; [`listeners.stream`](settings.md#listenersstream) turns it on. MODEL is `model.name`.
"""

_ENTRY = """
An entry has either `raw` or `text`. An entry with any other field than these is answered with an error, because a
misspelt `label` would go unnoticed.
"""

_ANSWER = """
Each entry is tried at least once and answered exactly once, in the same atomic step that removes it from its
stream. Answers do not keep the order of the entries.
"""
