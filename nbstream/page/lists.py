"""What the lists of messages share: the rows behind ids, the messages that are selected, the address filters."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from nbstream.errors import StoreUnavailable
from nbstream.page.requests import PageRefused
from nbstream.store.recent.message_rows import normalize_address
from nbstream.wire.api_json import is_message_id

if TYPE_CHECKING:
    from nbstream.page.requests import PageRequest
    from nbstream.store.recent.message_rows import MessageRow
    from nbstream.store.recent.row_search import RowSearch


FindRows: TypeAlias = "Callable[[Collection[str]], Awaitable[Mapping[str, MessageRow]]]"
"""Returns the rows of some messages by their ids, without those that are not known now."""


def known_rows(search: RowSearch) -> FindRows:
    """Return what finds rows; where Redis is away it finds none, since the ids say enough."""

    async def find(ids: Collection[str]) -> Mapping[str, MessageRow]:
        try:
            return await search.rows(ids)
        except StoreUnavailable:
            return {}

    return find


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


def read_address(filters: dict[str, str], name: str, problems: list[str]) -> str:
    """Return the address of the filter of this name, or ``@`` and a domain; a domain alone is taken as that.

    ``filters`` then has it as it was understood. What no address can match is left out, and ``problems`` say so.
    """
    written = filters[name]
    local, _, domain = written.rpartition("@")
    if "*" in domain or local == "*":
        problems.append(
            f"{written} is not looked for: only a whole address is, such as ann@x.org, or a whole domain, "
            "such as @x.org."
        )
        written = ""
    elif "." in written and "@" not in written:
        written = f"@{written}"
    filters[name] = written
    return normalize_address(written) if written else ""
