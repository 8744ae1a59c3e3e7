"""Pages that show what Redis has of messages: they consist of our own elements, whatever it is."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, cast

from nbstream.bayes.columns import CLASSES
from nbstream.filter.suspects import Suspect
from nbstream.policy.verdict import ModelState
from nbstream.server.http.access import Role
from nbstream.store.model.history import History, HistoryChange, RecentChanges
from nbstream.store.recent.message_rows import MessageRow, RowFilter, RowPage, RowPosition, RowSearch
from nbstream.store.settings import MemorySettings
from nbstream.web.admin.messages_view import MessagesView
from nbstream.web.admin.teaching_view import TeachingView
from nbstream.web.rendering import PageRenderer
from nbstream.web.requests import Answer, Page, PageRequest, Session, View
from tests.fuzz.page_elements import assert_own_elements

TIME = 1_800_000_000.0
SESSION = Session(Role.TEACH, "page ann", "c" * 64)
_runner = asyncio.Runner()
_renderer = PageRenderer()


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
        return self._known


async def _suspect_all(message_keys: Iterable[str]) -> Sequence[Suspect]:
    return [Suspect(key, "ham", 0.99) for key in message_keys]


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
            learned_by_class=partial(_find_nothing, None),
            clock=lambda: TIME,
        ),
        request or PageRequest(SESSION),
    )


async def _find_nothing(_: object) -> dict[str, Any]:
    return {}


def _show(view: View, request: PageRequest) -> None:
    page = _runner.run(_answer(view, request))
    assert isinstance(page, Page)
    assert_own_elements(_renderer.render(page, request, path="/ui/"), has_charts=True)


async def _answer(view: View, request: PageRequest) -> Answer:
    return await next(iter(view.routes())).handler(request)
