"""The view thresholds: how much ham each threshold would have lost of the mail that was labelled last.

Rules: what is said is what ``nbstream tune`` prints, by the same functions over the same prequential scores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from nbstream.evaluation.threshold_report import sample_warnings, threshold_columns
from nbstream.evaluation.tuning import compare_thresholds, policies_of_rules, score_classes
from nbstream.web.admin.drawings import draw_histogram
from nbstream.web.requests import Page, PageRefused, PageRequest, PageRoute, View

if TYPE_CHECKING:
    from nbstream.policy.recipient_rules import RecipientRules
    from nbstream.policy.thresholds import PrequentialScores
    from nbstream.policy.verdict import ModelState

_COLUMNS = ("threshold", "from P", "ham called spam", "% of ham", "spam missed", "% of spam")


class ThresholdsView(View):
    """The thresholds, and what others would have done.

    ``state`` is None before the counts are loaded. ``rules`` are those in force.
    """

    navigation = ("/ui/thresholds", "Thresholds")

    def __init__(
        self,
        model: str,
        prequential_scores: Callable[[], PrequentialScores],
        state: Callable[[], ModelState | None],
        rules: Callable[[], RecipientRules],
    ) -> None:
        self._model = model
        self._prequential_scores = prequential_scores
        self._state = state
        self._rules_in_force = rules

    def routes(self) -> Iterable[PageRoute]:
        """Return the route of the view."""
        return (PageRoute("GET", "/ui/thresholds", self._show),)

    async def _show(self, _: PageRequest) -> Page:
        state, prequential_scores, rules = self._state(), self._prequential_scores(), self._rules_in_force()
        if state is None:
            raise PageRefused(503, "The counts are not loaded yet. Reload the page in a moment.")
        tuning = compare_thresholds(
            prequential_scores,
            rules.default.policy,
            policies_of_rules(rules),
            prequential_scores.learned_at(state),
        )
        counts = tuning.present.error_counts
        values = {
            "counts": counts,
            "left_out": tuning.sample.left_out,
            "warnings": sample_warnings(tuning, self._model) if counts.ham or counts.spam else (),
            "learning": state if state.is_learning else None,
            "histogram": draw_histogram(score_classes(tuning.sample), tuning.present.thresholds),
            "columns": [column for column in threshold_columns(tuning) if column.title in _COLUMNS],
            "present_row": tuning.by_threshold().index(tuning.present),
        }
        return Page("admin/thresholds.html", values)
