"""The messages that are selected in a list."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from nbstream.listeners.http.page.requests import PageRefused
from nbstream.wire.api_json import is_message_id

if TYPE_CHECKING:
    from nbstream.listeners.http.page.requests import PageRequest

MAX_SELECTED = 100
"""How many messages can be selected at a time."""


def read_selected_ids(request: PageRequest) -> Sequence[str]:
    """Return the ids that a form selects, each once. Raises ``PageRefused`` for none and for too many."""
    ids = list(dict.fromkeys(filter(is_message_id, request.form.get("id", ()))))
    if not ids:
        raise PageRefused(400, "Nothing was changed: no message was selected. Tick some in the list first.")
    if len(ids) > MAX_SELECTED:
        raise PageRefused(400, f"Nothing was changed: at most {MAX_SELECTED} messages can be selected at a time.")
    return ids
