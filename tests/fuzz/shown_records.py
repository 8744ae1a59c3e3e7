"""Pages that show what Redis has of messages: they consist of our own elements, whatever it is."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, cast

from nbstream.bayes.columns import CLASSES
from nbstream.filter.filter import MessageRecord
from nbstream.filter.suspects import Suspect
from nbstream.policy.verdict import ModelState
from nbstream.server.http.access import Role
from nbstream.server.message_service import MessageHandler
from nbstream.store.model.history import History, HistoryChange, HistoryRecord, RecentChanges
from nbstream.store.recent.message_rows import MessageRow, RowPosition
from nbstream.store.recent.row_search import RowFilter, RowPage, RowSearch
from nbstream.store.settings import MemorySettings
from nbstream.web.admin.message_view import MessageLookups, MessageView
from nbstream.web.admin.messages_view import MessagesView
from nbstream.web.admin.quarantine_view import PageQuarantine
from nbstream.web.admin.teaching_view import TeachingView
from nbstream.web.rendering import PageRenderer
from nbstream.web.requests import Answer, Page, PageRequest, Session, View
from tests.fuzz.page_elements import assert_own_elements

TIME = 1_800_000_000.0
SESSION = Session(Role.TEACH, "page ann", "c" * 64)
_runner = asyncio.Runner()
_renderer = PageRenderer("1")


class _OneRow(RowSearch):
    """A search that finds one row."""

    def __init__(self, row: MessageRow) -> None:
        self._row = row

    async def count(self) -> int:
        return 1

    async def search(
        self,
        wanted: RowFilter,
        position: RowPosition | None = None,
        count: int = 0,
    ) -> RowPage:
        return RowPage((self._row,), self._row.position if position else None, is_cut=bool(wanted.sender))


class _Changes(RecentChanges):
    """The changes that were read."""

    def __init__(self, changes: Sequence[HistoryChange]) -> None:
        super().__init__(cast(History, None), limit=1)
        self._known = tuple(changes)

    async def read(self) -> Sequence[HistoryChange]:
        return self.known


async def _suspect_all(message_keys: Iterable[str]) -> Sequence[Suspect]:
    return [Suspect(key, "ham", 0.99) for key in message_keys]


class _EmptyQuarantine:
    async def find(self, message_id: str) -> None:
        return None


def show_row(row: MessageRow, request: PageRequest | None = None) -> None:
    """Show a row in the list, as an answer to this request."""
    _show(
        MessagesView(_OneRow(row), MemorySettings(), True, _find_nothing, dict, lambda: CLASSES),
        request or PageRequest(SESSION),
    )


def show_changes(changes: Sequence[HistoryChange], request: PageRequest | None = None) -> None:
    """Show changes in the view teaching, as an answer to this request. Raises ``PageRefused``."""
    _show(
        TeachingView(
            _Changes(changes),
            model_state=lambda: ModelState({"ham": 1, "spam": 1}),
            autolearned=lambda: None,
            find_rows=_find_nothing,
            find_suspects=_suspect_all,
            class_names=lambda: CLASSES,
            clock=lambda: TIME,
        ),
        request or PageRequest(SESSION),
    )


def show_message(record: MessageRecord | None, history: Sequence[HistoryRecord] = ()) -> None:
    """Show all that is known of a message."""

    async def find_record(_: str) -> MessageRecord | None:
        return record

    async def find_history(*_: object) -> Sequence[HistoryRecord]:
        return history

    async def find_nothing(_: str) -> None:
        return None

    lookups = MessageLookups(
        record=find_record,
        ledger_entry=find_nothing,
        history=find_history,
        rows=_find_nothing,
        policy_labels=dict,
        class_names=lambda: CLASSES,
    )
    view = MessageView(lookups, cast(PageQuarantine, _EmptyQuarantine()), _no_handler)
    _show(view, PageRequest(SESSION, "a" * 24))


async def _find_nothing(_: object) -> dict[str, Any]:
    return {}


def _no_handler() -> MessageHandler:
    raise AssertionError("nothing is taught")


def _show(view: View, request: PageRequest) -> None:
    page = _runner.run(_answer(view, request))
    assert isinstance(page, Page)
    assert_own_elements(_renderer.render(page, request, path="/ui/"), has_charts=True)


async def _answer(view: View, request: PageRequest) -> Answer:
    return await next(iter(view.routes())).handler(request)
