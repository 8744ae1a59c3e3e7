"""What lists of messages that have only an id say of them: what their rows have, where they are remembered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import TYPE_CHECKING, TypeAlias

from nbstream.errors import StoreUnavailable

if TYPE_CHECKING:
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
