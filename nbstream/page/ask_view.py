"""The view ask: the messages whose label would tell most, to be taught from here.

Rules: the lessons go the way of those of the list of messages. What was drawn by chance and what teaches most
stand apart, since budgets count on the first alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from nbstream.page.requests import Answer, Page, PageRequest, PageRoute, View
from nbstream.policy.budget import sample_progress
from nbstream.store.recent.message_rows import NULL_SENDER
from nbstream.store.recent.questions import find_questions

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from nbstream.policy.first_scores import FirstScores
    from nbstream.store.recent.questions import FindLabels
    from nbstream.store.recent.row_search import RowSearch

_SHOWN = 10  # questions of each kind


class AskView(View):
    """Shows the questions.

    ``is_drawing`` says whether messages are drawn. ``first_scores`` returns those of now, and ``budget_rates`` the
    rates of the budgets in force, and ``class_names`` the classes that can be taught.
    """

    navigation = ("/ui/ask", "Ask")

    def __init__(
        self,
        rows: RowSearch,
        find_labels: FindLabels,
        is_drawing: bool,
        first_scores: Callable[[], FirstScores],
        budget_rates: Callable[[], AbstractSet[float]],
        class_names: Callable[[], Sequence[str]],
    ) -> None:
        self._rows = rows
        self._find_labels = find_labels
        self._is_drawing = is_drawing
        self._first_scores = first_scores
        self._budget_rates = budget_rates
        self._class_names = class_names

    def routes(self) -> Iterable[PageRoute]:
        """Return the route of the view."""
        return (PageRoute("GET", "/ui/ask", self._show),)

    async def _show(self, _: PageRequest) -> Answer:
        ham, now = self._first_scores()["ham"], time.time()
        rates = sorted(self._budget_rates()) if self._is_drawing else []
        return Page(
            "ask.html",
            {
                "questions": await find_questions(self._rows, self._find_labels, _SHOWN),
                "is_drawing": self._is_drawing,
                "progress": [str(sample_progress(ham, rate, now)) for rate in rates],
                "class_names": self._class_names(),
                "null_sender": NULL_SENDER,
            },
        )
