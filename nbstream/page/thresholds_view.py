"""The view thresholds: what other thresholds would have done to the mail that was labelled last, and budgets.

Rules: the numbers are those of ``nbstream tune``, by the same functions over the same first scores. What all
choices have in common is computed once for the first scores as they are; a request then costs the same whatever
their number. Nothing is changed here: the line for the configuration is shown, to be copied.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from nbstream.evaluation.measures import overdrawn_p_value, wilson_interval
from nbstream.evaluation.threshold_choices import BUDGET_RATES, TuningBasis, cost_ratio
from nbstream.evaluation.threshold_report import (
    SCORES_NOTE,
    choice_members,
    format_threshold_rounded_up,
    sample_warnings,
)
from nbstream.evaluation.tuning import count_errors_at
from nbstream.page.charts import probability
from nbstream.page.requests import Json, Page, PageRefused, PageRequest, PageRoute, View
from nbstream.page.threshold_charts import (
    Histogram,
    det_point,
    draw_budget_use,
    draw_det,
    draw_distribution,
    draw_handles,
)
from nbstream.policy.budget import ham_needed
from nbstream.policy.thresholds import FalsePositiveBudget, Threshold, ThresholdPolicy
from nbstream.policy.verdict import format_threshold

if TYPE_CHECKING:
    from markupsafe import Markup

    from nbstream.evaluation.measures import IntervalEstimate
    from nbstream.evaluation.threshold_choices import ThresholdChoice, TuningResult
    from nbstream.evaluation.tuning import ErrorCounts, LabelledSample
    from nbstream.policy.first_scores import BudgetUse, FirstScores, FirstScoreWindow
    from nbstream.policy.recipient_rules import RecipientRules
    from nbstream.policy.verdict import ModelState, Thresholds


# The thresholds that somebody tries: read from a form, and written as a line of the configuration.
#
# Rules: pure. What the configuration would refuse is refused here too, with the field that is wrong. A field
# that the form does not have is that of the policy in force.

UNSURE, SPAM, SPAM_BUDGET, REJECT, REJECT_BUDGET = FIELDS = (
    "unsure", "spam", "spam_budget", "reject", "reject_budget",
)  # fmt: skip
"""The fields of the form; a budget replaces the number beside it."""

_MAX_CHARACTERS = 400  # of a number; the smallest one above 0 has 343
_NUMBER = re.compile(r"[0-9]*\.?[0-9]*(e-?[0-9]{1,3})?", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ThresholdTrial:
    """What somebody tries: the policy, or the keys of the texts that say what is wrong, by the fields."""

    policy: ThresholdPolicy | None
    problems: Mapping[str, str]


def read_trial(query: Mapping[str, str], present: ThresholdPolicy, rates: Iterable[float]) -> ThresholdTrial:
    """Read the fields of a form; ``rates`` are the budgets that it offers, and ``present`` is in force."""
    return _TrialReader(query, present, {rate_value(rate): rate for rate in rates}).read()


def rate_value(rate: float) -> str:
    """Return the value that stands for a budget in the form."""
    return plain_number(rate)


class _TrialReader:
    """Reads one form; the problems are collected."""

    def __init__(self, query: Mapping[str, str], present: ThresholdPolicy, rates: Mapping[str, float]) -> None:
        self._query = query
        self._present = present
        self._rates = rates
        self._problems: dict[str, str] = {}

    def read(self) -> ThresholdTrial:
        unsure = self._number(UNSURE, self._present.unsure)
        spam = self._threshold(SPAM, SPAM_BUDGET, self._present.spam)
        reject = self._threshold(REJECT, REJECT_BUDGET, self._present.reject)
        if spam is None and not self._problems.keys() & {SPAM, SPAM_BUDGET}:
            self._problems[SPAM] = "needed"
        if unsure is None or spam is None or self._problems:
            return ThresholdTrial(None, self._problems)
        self._compare(unsure, spam, reject)
        return ThresholdTrial(None if self._problems else ThresholdPolicy(unsure, spam, reject), self._problems)

    def _number(self, field: str, present: float | None, *, may_be_one: bool = False) -> float | None:
        """Return the number of a field, above 0 and below 1; an empty field is that of the policy in force."""
        given = self._query.get(field, "").strip()
        if not given:
            return present
        number = float(given) if len(given) <= _MAX_CHARACTERS and _is_number(given) else 0.0
        if 0 < number < 1 or (may_be_one and number == 1):
            return number
        self._problems[field] = "not_a_probability"
        return None

    def _threshold(self, field: str, budget_field: str, present: Threshold | None) -> Threshold | None:
        """Return a number or a budget; None where there is neither, or it is wrong."""
        if field not in self._query and budget_field not in self._query:
            return present
        if given := self._query.get(budget_field, ""):
            rate = self._rates.get(given)
            if rate is None:
                self._problems[budget_field] = "not_offered"
                return None
            return budget_instead(self._present.spam, rate) if field == SPAM else FalsePositiveBudget(rate)
        return self._number(field, None, may_be_one=field == REJECT)

    def _compare(self, unsure: float, spam: Threshold, reject: Threshold | None) -> None:
        """Note what is out of order, as the configuration does."""
        if isinstance(spam, FalsePositiveBudget):
            if spam.until_promised is not None and spam.until_promised < unsure:
                self._problems[UNSURE] = "above_until_promised"
            if isinstance(reject, FalsePositiveBudget) and reject.rate > spam.rate:
                self._problems[REJECT_BUDGET] = "larger_than_spam"
            return
        if spam < unsure:
            self._problems[SPAM] = "below_unsure"
        if isinstance(reject, float) and reject < spam:
            self._problems[REJECT] = "below_spam"


def budget_instead(present: Threshold, rate: float) -> FalsePositiveBudget:
    """Return a budget in place of the threshold for spam; until it is promised, what is in force stays."""
    until = present.until_promised if isinstance(present, FalsePositiveBudget) else present
    return FalsePositiveBudget(rate, until)


def _is_number(text: str) -> bool:
    return _NUMBER.fullmatch(text) is not None and any(digit.isdigit() for digit in text.lower().split("e")[0])


def verdict_line(policy: ThresholdPolicy) -> str:
    """Return the section ``verdict`` of the configuration with these thresholds, as one line of YAML."""
    members = {"unsure": plain_number(policy.unsure)}
    if isinstance(policy.spam, FalsePositiveBudget):
        until = policy.spam.until_promised
        members["max_false_positive_rate"] = plain_number(policy.spam.rate)
        members["until_promised"] = "unsure" if until is None else plain_number(until)
    else:
        members["spam"] = plain_number(policy.spam)
    match policy.reject:
        case None:
            members["reject"] = "null"
        case FalsePositiveBudget(rate=rate):
            members["reject"] = f"{{max_false_positive_rate: {plain_number(rate)}}}"
        case _:
            members["reject"] = plain_number(policy.reject)
    return f"verdict: {{{', '.join(f'{key}: {value}' for key, value in members.items())}}}"


def plain_number(value: float) -> str:
    """Return all digits of a number without an exponent, which YAML would read as text."""
    return f"{Decimal(repr(value)):f}"


# The outcome of thresholds in words and numbers: what is in force beside what somebody tries.

_NEVER = {"spam": "never called spam", "reject": "never rejected"}
_HAM_DIGITS, _SPAM_DIGITS = 3, 2  # of percents, as in the table of ``tune``


@dataclass(frozen=True, slots=True)
class Measure:
    """One measure of an outcome in words: its value, and its 95 % interval."""

    value: str
    interval: str


def outcome_measures(choice: ThresholdChoice, cost_ratio: float) -> Mapping[str, Measure]:
    """Return the measures of a choice by their names, in the order in which they are shown."""
    errors, unsure, rejected = choice.error_counts, choice.unsure_counts, choice.rejected_counts
    return {
        **error_measures(errors),
        "ham_rejected": share_measure(rejected.ham, errors.ham, _HAM_DIGITS),
        "spam_rejected": share_measure(rejected.spam, errors.spam, _SPAM_DIGITS),
        "ham_unsure": share_measure(unsure.ham, errors.ham, _HAM_DIGITS),
        "spam_unsure": share_measure(unsure.spam, errors.spam, _SPAM_DIGITS),
        "cost": _estimate_measure(errors.relative_cost(cost_ratio)),
    }


def error_measures(errors: ErrorCounts) -> Mapping[str, Measure]:
    """Return ham lost and spam missed at one threshold."""
    return {
        "ham_lost": share_measure(int(errors.ham_called_spam[0]), errors.ham, _HAM_DIGITS),
        "spam_missed": share_measure(int(errors.spam_missed[0]), errors.spam, _SPAM_DIGITS),
    }


def share_measure(count: int, total: int, digits: int) -> Measure:
    """Return how many of a class, and Wilson's interval of the share, with so many digits of percents."""
    if not total:
        return Measure("not known", "")
    low, high = (float(end[0]) for end in wilson_interval(np.array([float(count)]), total))
    percent = format_percent(count / total, digits)
    return Measure(f"{count:,} of {total:,}, {percent}", _interval(low, high, digits))


def _estimate_measure(estimate: IntervalEstimate) -> Measure:
    value, low, high = (float(end[0]) for end in (estimate.value, estimate.lower, estimate.upper))
    if not math.isfinite(value):
        return Measure("not known", "")
    return Measure(format_percent(value, _SPAM_DIGITS), _interval(low, high, _SPAM_DIGITS))


def _interval(low: float, high: float, digits: int) -> str:
    return f"{format_percent(low, digits)} to {format_percent(high, digits)}"


def format_percent(share: float, digits: int) -> str:
    """Return a share in percent."""
    return f"{100 * share:.{digits}f} %"


def changes_sentence(choice: ThresholdChoice, present: ThresholdChoice) -> str:
    """Return what a choice would have changed, and what is promised of its budgets."""
    changes = choice.verdict_changes
    if choice.thresholds == present.thresholds:
        sentence = "These are the thresholds in force."
    elif not changes.messages:
        sentence = "No message is labelled, so nobody knows what these thresholds would have done."
    else:
        sentence = f"These thresholds {changes.to_sentence()}."
    promise = choice.thresholds.promise
    return f"{sentence} {as_sentence(promise)}" if promise else sentence


def as_sentence(words: str) -> str:
    """Return words of the command line as a sentence of the page."""
    return f"{words[:1].upper()}{words[1:]}."


def threshold_texts(thresholds: Thresholds) -> Mapping[str, str]:
    """Return in words from which P(spam) each verdict is given, by the names of the thresholds."""
    reject = math.inf if thresholds.reject is None else thresholds.reject
    return {
        name: f"{name} from {format_threshold(p)}" if math.isfinite(p) else _NEVER[name]
        for name, p in (("unsure", thresholds.unsure), ("spam", thresholds.spam), ("reject", reject))
    }


# A policy in force beside what somebody tries instead of it.

TOP_KEY = "default"
"""The key of the policy at the top of the file."""

BRIEF = ("ham_lost", "spam_missed", "ham_unsure")
"""The measures that stand beside the chart, so that they are seen while a mark is dragged."""

PROBLEMS = {
    "needed": "Enter a number, or choose a budget.",
    "not_a_probability": "Enter a number above 0 and below 1.",
    "not_offered": "Choose one of the budgets offered.",
    "below_unsure": "Enter at least the threshold for unsure.",
    "below_spam": "Enter at least the threshold for spam, or nothing.",
    "larger_than_spam": "Choose no more than the budget for spam.",
    "above_until_promised": "Enter no more than verdict.until_promised, {until}.",
}
"""What is wrong with a field, by the problems of ``ThresholdTrial``."""

_MAX_SHOWN = 40  # characters of a field that is wrong


@dataclass(frozen=True, slots=True)
class NamedPolicy:
    """A policy in force. ``key`` stands for it in queries; ``pattern`` is that of its rule, empty at the top.

    ``recipients`` says in words whom it is for.
    """

    key: str
    pattern: str
    recipients: str
    policy: ThresholdPolicy


@dataclass(frozen=True, slots=True)
class Comparison:
    """A policy in force beside what somebody tries instead; ``tried`` is None where that is wrong."""

    named: NamedPolicy
    trial: ThresholdTrial
    present: ThresholdChoice
    tried: ThresholdChoice | None
    cost_ratio: float

    @property
    def shown(self) -> ThresholdChoice:
        """What the chart shows."""
        return self.tried or self.present

    def problems(self) -> dict[str, str]:
        """Return what is wrong, in words, by the fields of the form."""
        spam = self.named.policy.spam
        until = format_threshold(getattr(spam, "until_promised", None) or math.inf)
        return {field: PROBLEMS[problem].format(until=until) for field, problem in self.trial.problems.items()}

    def texts(self) -> dict[str, str]:
        """Return the words of the outcome, by the ids of the elements that show them."""
        measures = outcome_measures(self.present, self.cost_ratio)
        tried = outcome_measures(self.tried, self.cost_ratio) if self.tried else None
        unknown = "not known"
        return {
            "summary": changes_sentence(self.tried, self.present)
            if self.tried
            else "These thresholds cannot be used. The field that is wrong says why.",
            "line": verdict_line(self.trial.policy) if self.trial.policy else "",
            **{f"brief-{name}": tried[name].value if tried else unknown for name in BRIEF},
            **{f"tried-{name}": tried[name].value if tried else unknown for name in measures},
            **{f"interval-{name}": tried[name].interval if tried else "" for name in measures},
        }


def named_policies(rules: RecipientRules) -> list[NamedPolicy]:
    """Return the policy at the top of the file, and those of the rules that have another one."""
    top = rules.default.policy
    others = [
        NamedPolicy(
            str(rule.treatment.position),
            rule.pattern.text,
            f"recipients that match {rule.pattern.text}",
            rule.treatment.policy,
        )
        for rule in rules.rules
        if rule.treatment.policy != top
    ]
    recipients = "all recipients without a rule of their own" if others else "all recipients"
    return [NamedPolicy(TOP_KEY, "", recipients, top), *others]


def rates_in_force(policies: Sequence[NamedPolicy]) -> set[float]:
    """Return the budgets that are to be kept."""
    return {rate for named in policies for rate in named.policy.budget_rates}


def thresholds_of(choice: ThresholdChoice) -> dict[str, float]:
    """Return the thresholds by their names; infinite where they are never reached."""
    thresholds = choice.thresholds
    reject = math.inf if thresholds.reject is None else thresholds.reject
    return {UNSURE: thresholds.unsure, SPAM: thresholds.spam, REJECT: reject}


def outcome_to_json(comparison: Comparison) -> dict[str, Any]:
    """Return what the script shows; ``tried`` has the members that ``nbstream tune --json`` gives a choice."""
    tried = comparison.tried
    point = det_point(tried.error_counts) if tried else None
    return {
        "problems": comparison.problems(),
        "tried": choice_members(tried, comparison.cost_ratio) if tried else None,
        "thresholds": {
            name: plain_number(p) if math.isfinite(p) else None for name, p in thresholds_of(tried).items()
        }
        if tried
        else None,
        "words": threshold_texts(tried.thresholds) if tried else None,
        "texts": comparison.texts(),
        "point": [round(coordinate, 1) for coordinate in point] if point else None,
    }


def form_values(query: Mapping[str, str], comparison: Comparison) -> dict[str, str]:
    """Return what stands in the fields: what was given where it is wrong, else what is tried."""
    if comparison.trial.policy is None:
        fallback = _policy_fields(comparison.named.policy, comparison.present.thresholds)
        return {field: query.get(field, fallback[field])[:_MAX_SHOWN] for field in FIELDS}
    return _policy_fields(comparison.trial.policy, comparison.shown.thresholds)


def _policy_fields(policy: ThresholdPolicy, thresholds: Thresholds) -> dict[str, str]:
    return {
        UNSURE: plain_number(policy.unsure),
        SPAM: _number_field(thresholds.spam),
        SPAM_BUDGET: _budget_field(policy.spam),
        REJECT: _number_field(thresholds.reject),
        REJECT_BUDGET: _budget_field(policy.reject),
    }


def _number_field(threshold: float | None) -> str:
    return plain_number(threshold) if threshold is not None and threshold <= 1 else ""


def _budget_field(threshold: Threshold | None) -> str:
    return rate_value(threshold.rate) if isinstance(threshold, FalsePositiveBudget) else ""


# What the view thresholds shows: its charts, and the rows of its tables.

_FEW = 100  # messages of a class: with fewer, what was never seen is said to be possible
_TABLE_POINTS = 10  # of the table beside the chart of a budget


def possible_shares(sample: LabelledSample) -> Sequence[str] | None:
    """Return which share of the ham and of the spam an error may happen to that was never seen.

    None where enough messages are known.
    """
    numbers = len(sample.hams), len(sample.spams)
    if not any(numbers) or min(numbers) >= _FEW:
        return None
    return [format_percent(float(wilson_interval(np.zeros(1), n)[1][0]), 1) for n in numbers]


def handles_drawing(histogram: Histogram, choice: ThresholdChoice) -> Markup:
    """Return the thresholds of a choice on that chart, with their texts."""
    words = threshold_texts(choice.thresholds)
    return draw_handles(
        histogram,
        [(name, words[name], threshold) for name, threshold in thresholds_of(choice).items()],
    )


def histogram_rows(histogram: Histogram) -> Iterator[tuple[str, str, int, int]]:
    """Yield the classes that have messages: from and to which P(spam), and the numbers of ham and spam."""
    last = len(histogram.ham) - 1
    for number, (low, high) in enumerate(pairwise(histogram.edges)):
        ham, spam = histogram.ham[number], histogram.spam[number]
        if ham or spam:
            start = format_threshold(probability(low)) if number else "0"
            yield start, format_threshold(probability(high)) if number < last else "1", ham, spam


def det_drawing(result: TuningResult, comparison: Comparison) -> Markup | None:
    """Return the chart of the error trade-off; None without ham or without spam."""
    promised = [choice.error_counts for choice in result.budgets if math.isfinite(choice.spam_threshold)]
    return draw_det(result.sample, promised, comparison.present.error_counts, comparison.shown.error_counts)


def budget_row(
    rate: float, basis: TuningBasis, present: ThresholdPolicy, ham: FirstScoreWindow, in_force: set[float]
) -> dict[str, Any]:
    """Return a budget: its promise, what it would have done, and how it was used if it is in force."""
    promise = basis.promises[rate]
    thresholds = basis.thresholds(ThresholdPolicy(present.unsure, budget_instead(present.spam, rate)))
    messages, lost = ham.budget_use(rate) if rate in in_force else (0, 0)
    return {
        "value": rate_value(rate),
        "rate": format_rate(rate),
        "state": str(promise),
        "is_promised": promise.is_promised,
        "from": format_threshold_rounded_up(thresholds.spam),
        "measures": error_measures(count_errors_at(basis.sample, thresholds)),
        "use": (lost, rate * messages, messages, overdrawn_p_value(messages, rate, lost))
        if rate in in_force
        else None,
    }


def budget_chart_values(rate: float, uses: Sequence[BudgetUse]) -> dict[str, Any]:
    """Return the chart of a budget's use over time, and the rows of the table beside it, the last as of now."""
    title = f"The budget of {format_rate(rate)}: ham lost and allowed over time"
    step = -(-len(uses) // _TABLE_POINTS)
    rows = [(use.at, use.messages, use.called_spam, rate * use.messages) for use in uses[::-1][::step][::-1]]
    return {"title": title, "drawing": draw_budget_use(rate, uses, title), "rows": rows}


def format_rate(rate: float) -> str:
    """Return a rate in percent."""
    return f"{100 * rate:g} %"


PATH = "/ui/thresholds"
_BUDGET_POINTS = 60  # of a chart


class ThresholdsView(View):
    """The thresholds, and what others would have done.

    ``max_first_scores`` of each class are kept. ``state`` is None before the counts are loaded. ``rules`` are
    those in force.
    """

    navigation = ("/ui/thresholds", "Thresholds")

    def __init__(
        self,
        model: str,
        max_first_scores: int,
        first_scores: Callable[[], FirstScores],
        state: Callable[[], ModelState | None],
        rules: Callable[[], RecipientRules],
    ) -> None:
        self._model = model
        self._max_first_scores = max_first_scores
        self._first_scores = first_scores
        self._state = state
        self._rules_in_force = rules
        self._cache: tuple[FirstScores, tuple[int, int], TuningBasis] | None = None

    def routes(self) -> Iterable[PageRoute]:
        """Return the routes of the view, and of the outcome that its script asks for."""
        return (PageRoute("GET", PATH, self._show), PageRoute("GET", f"{PATH}/outcome", self._show_outcome))

    async def _show(self, request: PageRequest) -> Page:
        return Page("thresholds.html", self._page_values(request.query))

    async def _show_outcome(self, request: PageRequest) -> Json:
        policies = named_policies(self._rules_in_force())
        return Json(outcome_to_json(self._compare(request.query, policies)))

    def _basis(self, policies: Sequence[NamedPolicy]) -> TuningBasis:
        """Return what all choices have in common, computed anew where something was learned or reloaded."""
        state = self._state()
        if state is None:
            raise PageRefused(503, "The counts are not loaded yet. Reload the page in a moment.")
        first_scores = self._first_scores()
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
        possible = {rate for rate in BUDGET_RATES if ham_needed(rate) <= self._max_first_scores}
        return sorted(possible | rates_in_force(policies), reverse=True)

    def _page_values(self, query: Mapping[str, str]) -> dict[str, Any]:
        policies = named_policies(self._rules_in_force())
        comparison = self._compare(query, policies)
        basis, named = self._basis(policies), comparison.named
        result = basis.compare(named.policy)
        state, ham = self._state(), self._first_scores()["ham"]
        rates = self._rates(policies)
        histogram = Histogram.of(
            basis.sample,
            [*thresholds_of(comparison.present).values(), *thresholds_of(comparison.shown).values()],
        )
        return {
            "model": self._model,
            "counts": result.present.error_counts,
            "left_out": basis.sample.left_out,
            "note": SCORES_NOTE,
            "warnings": map(as_sentence, sample_warnings(result, self._model))
            if len(basis.sample.hams) + len(basis.sample.spams)
            else (),
            "possible_shares": possible_shares(basis.sample),
            "learning": state if state and state.is_learning else None,
            "named": named,
            "fields": form_values(query, comparison),
            "problems": comparison.problems(),
            "rates": [(rate_value(rate), format_rate(rate)) for rate in rates],
            "distribution": draw_distribution(histogram),
            "handles": handles_drawing(histogram, comparison.shown),
            "histogram_rows": list(histogram_rows(histogram)),
            "texts": comparison.texts(),
            "brief": BRIEF,
            "present": outcome_measures(comparison.present, comparison.cost_ratio),
            "cost_ratio": comparison.cost_ratio,
            "det": det_drawing(result, comparison),
            "choices": result.by_threshold(),
            "outcome_measures": outcome_measures,
            "rounded_up": format_threshold_rounded_up,
            "policies": policies,
            "thresholds_of": basis.thresholds,
            "threshold_texts": threshold_texts,
            "measures_at": lambda thresholds: error_measures(count_errors_at(basis.sample, thresholds)),
            "budgets": [budget_row(rate, basis, named.policy, ham, rates_in_force(policies)) for rate in rates],
            "budget_charts": [
                budget_chart_values(rate, uses)
                for rate in dict.fromkeys(named.policy.budget_rates)
                if (uses := ham.budget_use_over_time(rate, _BUDGET_POINTS))
            ],
        }
