"""The catalogue: all texts of the page, by their keys. Each view has its own module here."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from nbstream.listeners.http.page.texts import (
    layout,
    lesson,
    login,
    message,
    messages,
    now,
    quarantine,
    teaching,
    thresholds,
    tokens,
    undo,
)

_PARTS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "layout": layout.TEXTS,
        "lesson": lesson.TEXTS,
        "login": login.TEXTS,
        "now": now.TEXTS,
        "message": message.TEXTS,
        "messages": messages.TEXTS,
        "thresholds": thresholds.TEXTS,
        "teaching": teaching.TEXTS,
        "tokens": tokens.TEXTS,
        "undo": undo.TEXTS,
        "quarantine": quarantine.TEXTS,
    }
)


def text(key: str, **values: object) -> str:
    """Return the text of this key, such as ``messages.title``, with its values put in.

    Where a value is named ``count``, the text of ``key`` + ``.one`` is taken for the count 1, if there is one.
    Raises ``KeyError`` for an unknown key or a missing value.
    """
    part, _, name = key.partition(".")
    texts = _PARTS[part]
    if values.get("count") == 1 and f"{name}.one" in texts:
        name = f"{name}.one"
    return texts[name].format(**values)
