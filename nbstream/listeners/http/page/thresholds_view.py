"""The view thresholds: what other thresholds would have done to the mail that was labelled last, and budgets.

Rules: the numbers are those of ``nbstream tune``, by the same functions over the same first scores. What all
choices have in common is computed once for the first scores as they are; a request then costs the same whatever
their number. Nothing is changed here: the line for the configuration is shown, to be copied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nbstream.evaluation.threshold_choices import BUDGET_RATES, TuningBasis, cost_ratio
from nbstream.evaluation.threshold_report import SCORES_NOTE, sample_warnings
from nbstream.listeners.http.page.charts.distribution_chart import Histogram
from nbstream.listeners.http.page.requests import Json, Page, PageRefused, PageRequest
from nbstream.listeners.http.page.routes import PageRoute
from nbstream.listeners.http.page.threshold_comparison import (
    BRIEF,
    TOP_KEY,
    Comparison,
    NamedPolicy,
    form_values,
    named_policies,
    outcome_to_json,
    rates_in_force,
    thresholds_of,
)
from nbstream.listeners.http.page.threshold_outcome import as_sentence, outcome_measures
from nbstream.listeners.http.page.threshold_query import rate_value, read_trial
from nbstream.listeners.http.page.threshold_sections import (
    budget_chart_values,
    budget_row,
    det_drawing,
    distribution_drawing,
    few_messages,
    format_rate,
    handles_drawing,
    histogram_rows,
    policy_row,
    table_row,
)
from nbstream.policy.config_bounds import ham_needed

if TYPE_CHECKING:
    from nbstream.policy.first_scores import FirstScores
    from nbstream.policy.recipient_rules import RecipientRules
    from nbstream.policy.verdict import ModelState

PATH = "/ui/thresholds"
_BUDGET_POINTS = 60  # of a chart


@dataclass(frozen=True, slots=True)
class ThresholdLookups:
    """What the view asks the daemon.

    ``max_first_scores`` of each class are kept. ``state`` is None before the counts are loaded. ``rules`` are
    those in force.
    """

    model: str
    max_first_scores: int
    first_scores: Callable[[], FirstScores]
    state: Callable[[], ModelState | None]
    rules: Callable[[], RecipientRules]


class ThresholdsView:
    """The thresholds, and what others would have done."""

    def __init__(self, lookups: ThresholdLookups) -> None:
        self._lookups = lookups
        self._cache: tuple[FirstScores, tuple[int, int], TuningBasis] | None = None

    def routes(self) -> Iterable[PageRoute]:
        """Return the routes of the view, and of the outcome that its script asks for."""
        return (PageRoute("GET", PATH, self._show), PageRoute("GET", f"{PATH}/outcome", self._show_outcome))

    async def _show(self, request: PageRequest) -> Page:
        return Page("thresholds.html", self._page_values(request.query))

    async def _show_outcome(self, request: PageRequest) -> Json:
        policies = named_policies(self._lookups.rules())
        return Json(outcome_to_json(self._compare(request.query, policies)))

    def _basis(self, policies: Sequence[NamedPolicy]) -> TuningBasis:
        """Return what all choices have in common, computed anew where something was learned or reloaded."""
        state = self._lookups.state()
        if state is None:
            raise PageRefused(503, "The counts are not loaded yet. Reload the page in a moment.")
        first_scores = self._lookups.first_scores()
        changes = first_scores["ham"].change_count, first_scores["spam"].change_count
        if self._cache and self._cache[0] is first_scores and self._cache[1] == changes:
            basis = self._cache[2]
            if basis.promises.keys() >= rates_in_force(policies):
                return basis
        learned_at = first_scores.learned_at(state)
        basis = TuningBasis.of(first_scores, (named.policy for named in policies), learned_at)
        self._cache = first_scores, changes, basis
        return basis

    def _compare(self, query: Mapping[str, str], policies: Sequence[NamedPolicy]) -> Comparison:
        basis = self._basis(policies)
        key = query.get("policy", TOP_KEY)
        named = next((named for named in policies if named.key == key), None)
        if named is None:
            raise PageRefused(404, "There is no such rule: the configuration may have changed.")
        trial = read_trial(query, named.policy, self._rates(policies))
        return Comparison(
            named,
            trial,
            basis.choice("present", named.policy, named.policy),
            basis.choice("tried", trial.policy, named.policy) if trial.policy else None,
            cost_ratio(named.policy),
        )

    def _rates(self, policies: Sequence[NamedPolicy]) -> list[float]:
        """Return the budgets that are offered, the largest first.

        They are those in force, and those of ``tune`` for which enough ham is kept.
        """
        possible = {rate for rate in BUDGET_RATES if ham_needed(rate) <= self._lookups.max_first_scores}
        return sorted(possible | rates_in_force(policies), reverse=True)

    def _page_values(self, query: Mapping[str, str]) -> dict[str, Any]:
        policies = named_policies(self._lookups.rules())
        comparison = self._compare(query, policies)
        basis, named = self._basis(policies), comparison.named
        result = basis.compare(named.policy)
        state, ham = self._lookups.state(), self._lookups.first_scores()["ham"]
        rates = self._rates(policies)
        histogram = Histogram.of(
            basis.sample,
            [*thresholds_of(comparison.present).values(), *thresholds_of(comparison.shown).values()],
        )
        return {
            "model": self._lookups.model,
            "counts": result.present.error_counts,
            "left_out": basis.sample.left_out,
            "note": SCORES_NOTE,
            "warnings": [
                *map(as_sentence, sample_warnings(result, self._lookups.model)),
                *few_messages(basis.sample),
            ]
            if len(basis.sample.hams) + len(basis.sample.spams)
            else [],
            "learning": state if state and state.is_learning else None,
            "named": named,
            "fields": form_values(query, comparison),
            "problems": comparison.problems(),
            "rates": [(rate_value(rate), format_rate(rate)) for rate in rates],
            "distribution": distribution_drawing(histogram),
            "handles": handles_drawing(histogram, comparison.shown),
            "histogram_rows": list(histogram_rows(histogram)),
            "texts": comparison.texts(),
            "brief": BRIEF,
            "present": outcome_measures(comparison.present, comparison.cost_ratio),
            "cost_ratio": comparison.cost_ratio,
            "det": det_drawing(result, comparison),
            "table": [table_row(choice, comparison.cost_ratio) for choice in result.by_threshold()],
            "policies": [policy_row(other, basis) for other in policies],
            "budgets": [budget_row(rate, basis, named.policy, ham, rates_in_force(policies)) for rate in rates],
            "budget_charts": [
                budget_chart_values(rate, uses)
                for rate in dict.fromkeys(named.policy.budget_rates)
                if (uses := ham.budget_use_over_time(rate, _BUDGET_POINTS))
            ],
        }
