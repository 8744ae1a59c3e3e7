"""The view messages: the checked messages that are remembered, with a filter, a page at a time.

Rules: everything stands in the query, so that a link shows the same again and no script is needed. What cannot be
understood in it is left out, and said. A page begins behind a message, and not at a number: what comes in
meanwhile moves nothing.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from nbstream.errors import StoreUnavailable
from nbstream.policy.verdict import ActionKind, Verdict
from nbstream.server.moments import parse_moment
from nbstream.store.recent.message_rows import (
    NULL_SENDER,
    MessageRow,
    RowFilter,
    RowPosition,
    address_matches,
)
from nbstream.web.forms import link_to, read_address, read_position
from nbstream.web.requests import Answer, Page, PageRequest, PageRoute, View

if TYPE_CHECKING:
    from nbstream.store.recent.message_rows import RowSearch
    from nbstream.store.settings import MemorySettings

FindRows: TypeAlias = "Callable[[Collection[str]], Awaitable[Mapping[str, MessageRow]]]"
"""Returns the rows of some messages by their ids, without those that are not remembered."""


PATH = "/ui/messages"

_MAX_ID_LENGTH = 64
_MAX_SUBJECT_LENGTH = 200
_FILTERS = ("id", "verdict", "sender", "recipient", "subject", "since", "until", "action", "policy")


class _Query(NamedTuple):
    """What the query of a request asks for, and what of it cannot be understood (texts for the reader)."""

    wanted: RowFilter
    position: RowPosition | None
    problems: tuple[str, ...]
    filters: Mapping[str, str]

    def link(self, position: RowPosition | None = None, *, select: str = "") -> str:
        """Return the address of another page with the same filters, or of the first one."""
        older = f"{position.checked_at!r}_{position.id}" if position else ""
        return link_to(PATH, self.filters, older=older, select=select)


class MessagesView(View):
    """Lists checked messages.

    ``memory`` says what is remembered, and ``has_envelopes`` whether with envelopes. ``find_labels`` returns what
    messages are learned as, by their ids. ``policy_labels`` returns how policies of rules are shown, by their
    names, and ``class_names`` the classes that can be taught.
    """

    navigation = ("/ui/messages", "Messages")

    def __init__(
        self,
        rows: RowSearch,
        memory: MemorySettings,
        has_envelopes: bool,
        find_labels: Callable[[Sequence[str]], Awaitable[Mapping[str, str]]],
        policy_labels: Callable[[], Mapping[str, str]],
        class_names: Callable[[], Sequence[str]],
    ) -> None:
        self._rows = rows
        self._memory = memory
        self._has_envelopes = has_envelopes
        self._find_labels = find_labels
        self._policy_labels = policy_labels
        self._class_names = class_names

    def routes(self) -> Iterable[PageRoute]:
        """Return the route of the list."""
        return (PageRoute("GET", PATH, self._list),)

    async def _list(self, request: PageRequest) -> Answer:
        query = _read_query(request.query)
        page = await self._rows.search(query.wanted, query.position)
        return Page(
            "admin/messages.html",
            {
                "messages": page.rows,
                "recipients": {row.id: _shown_recipient(row, query.wanted.recipient) for row in page.rows},
                "null_sender": NULL_SENDER,
                "class_names": self._class_names(),
                "labels": await self._find_labels([row.id for row in page.rows]),
                "selects_all": request.query.get("select") == "all",
                "select_all_link": query.link(query.position, select="all"),
                "select_none_link": query.link(query.position),
                "remembered": await self._rows.count(),
                "memory": self._memory,
                "has_envelopes": self._has_envelopes,
                "filters": query.filters,
                "is_filtered": any(query.filters.values()),
                "problems": query.problems,
                "verdicts": [str(verdict) for verdict in Verdict],
                "actions": [str(kind) for kind in ActionKind],
                "policy_labels": self._policy_labels(),
                "time_zone": time.strftime("%Z"),
                "searched_to": page.next_position.checked_at if page.is_cut and page.next_position else None,
                "first_link": query.link() if query.position else None,
                "older_link": query.link(page.next_position) if page.next_position else None,
                "clear_link": PATH,
            },
        )


async def rows_of_results(find_rows: FindRows, message_ids: Collection[str]) -> Mapping[str, MessageRow]:
    """Return the rows of messages that a page has results of, none where Redis is away: the results count."""
    with suppress(StoreUnavailable):
        return await find_rows(message_ids)
    return {}


def _shown_recipient(row: MessageRow, wanted: str) -> str | None:
    """Return the recipient to show: of several, the one who was searched for."""
    recipients = row.envelope.recipients if row.envelope else ()
    matching = (each for each in recipients if wanted and address_matches(each, wanted))
    return next(matching, recipients[0] if recipients else None)


def _read_query(query: Mapping[str, str]) -> _Query:
    filters = {name: query.get(name, "").strip() for name in _FILTERS}
    problems: list[str] = []
    since, until = (_read_time(filters, name, problems) for name in ("since", "until"))
    for name, known in (("verdict", Verdict), ("action", ActionKind)):
        if filters[name] not in {"", *known}:
            problems.append(f"There is no such {name}: messages with each one are shown.")
            filters[name] = ""
    sender, recipient = (read_address(filters, name, problems) for name in ("sender", "recipient"))
    wanted = RowFilter(
        id_prefix=filters["id"].lower()[:_MAX_ID_LENGTH],
        since=since,
        until=until,
        verdict=filters["verdict"],
        sender=sender,
        recipient=recipient,
        action=filters["action"],
        policy=filters["policy"],
        subject=filters["subject"][:_MAX_SUBJECT_LENGTH],
    )
    return _Query(wanted, read_position(query.get("older", "")), tuple(problems), filters)


def _read_time(filters: dict[str, str], name: str, problems: list[str]) -> float | None:
    """Return the time of a filter, and write it into ``filters`` as a browser shows it, in the daemon's zone."""
    if not filters[name]:
        return None
    try:
        at = parse_moment(filters[name], time.time())
    except ValueError:
        problems.append("A time was not understood and is left out. Write it as 2h, 3d or 2026-11-23T14:30.")
        filters[name] = ""
        return None
    filters[name] = datetime.fromtimestamp(at).astimezone().replace(tzinfo=None).isoformat()
    return at
