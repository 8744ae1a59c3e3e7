"""The view now: what is wrong, what is unsure and wants a label, and what people corrected last."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from nbstream.policy.verdict import Verdict
from nbstream.store.recent.message_rows import RowFilter
from nbstream.web.admin.teaching_view import contradicts_verdict, newest_by_message
from nbstream.web.areas import PREFIX
from nbstream.web.requests import Answer, Page, PageRequest, PageRoute, View

if TYPE_CHECKING:
    from nbstream.findings import Finding
    from nbstream.store.model.history import RecentChanges
    from nbstream.store.recent.message_rows import RowSearch

_SHOWN = 10


class NowView(View):
    """Shows the state of now.

    ``findings`` returns what is wrong, and ``find_labels`` what messages are learned as, by their ids.
    """

    navigation = (PREFIX, "Now")

    def __init__(
        self,
        findings: Callable[[], Awaitable[Sequence[Finding]]],
        rows: RowSearch,
        find_labels: Callable[[Sequence[str]], Awaitable[Mapping[str, str]]],
        changes: RecentChanges,
    ) -> None:
        self._findings = findings
        self._rows = rows
        self._find_labels = find_labels
        self._changes = changes

    def routes(self) -> Iterable[PageRoute]:
        """Return the route of the view."""
        return (PageRoute("GET", PREFIX, self._show),)

    async def _show(self, _: PageRequest) -> Answer:
        unsure = (await self._rows.search(RowFilter(verdict=Verdict.UNSURE))).rows
        labels = await self._find_labels([row.id for row in unsure])
        changes = newest_by_message(await self._changes.read())
        corrections = list(islice(filter(contradicts_verdict, changes), _SHOWN))
        values = {
            "findings": await self._findings(),
            "unsure": [row for row in unsure if row.id not in labels][:_SHOWN],
            "corrections": corrections,
            "rows": await self._rows.rows({change.message_key for change in corrections}),
        }
        return Page("admin/now.html", values)
