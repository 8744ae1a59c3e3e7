"""What the view thresholds shows: its charts, and the rows of its tables."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from nbstream.evaluation.budget_outcome import overdrawn_p_value
from nbstream.evaluation.intervals import wilson_interval
from nbstream.evaluation.threshold_report import format_threshold_rounded_up
from nbstream.evaluation.tuning import count_errors_at
from nbstream.listeners.http.page.charts.budget_chart import BudgetTexts, draw_budget_use
from nbstream.listeners.http.page.charts.det_chart import DetTexts, draw_det
from nbstream.listeners.http.page.charts.distribution_chart import (
    DistributionTexts,
    Histogram,
    ThresholdHandle,
    draw_distribution,
    draw_handles,
)
from nbstream.listeners.http.page.charts.log_odds import probability
from nbstream.listeners.http.page.threshold_comparison import thresholds_of
from nbstream.listeners.http.page.threshold_outcome import (
    error_measures,
    format_percent,
    outcome_measures,
    threshold_texts,
)
from nbstream.listeners.http.page.threshold_query import budget_instead, rate_value
from nbstream.policy.policy import ThresholdPolicy
from nbstream.policy.verdict import format_threshold

if TYPE_CHECKING:
    from markupsafe import Markup

    from nbstream.evaluation.threshold_choices import ThresholdChoice, TuningBasis, TuningResult
    from nbstream.evaluation.tuning import LabelledSample
    from nbstream.listeners.http.page.threshold_comparison import Comparison, NamedPolicy
    from nbstream.policy.first_scores import BudgetUse, FirstScoreWindow

_FEW = 100  # messages of a class: with fewer, what was never seen is said to be possible
_TABLE_POINTS = 10  # of the table beside the chart of a budget


def few_messages(sample: LabelledSample) -> Iterator[str]:
    """Yield how far the rates of a small sample may be from the true ones."""
    ham, spam = len(sample.hams), len(sample.spams)
    if ham + spam and min(ham, spam) < _FEW:
        shares = (float(wilson_interval(np.zeros(1), n)[1][0]) for n in (ham, spam))
        ham_share, spam_share = (format_percent(share, 1) for share in shares)
        yield (
            f"Only {ham:,} ham and {spam:,} spam are known. With so few, an error that was never seen may "
            f"still happen to {ham_share} of the ham, or to {spam_share} of the spam."
        )


def distribution_drawing(histogram: Histogram) -> Markup:
    """Return the chart of P(spam), with its texts."""
    return draw_distribution(
        histogram,
        DistributionTexts(
            title="P(spam) of ham and spam before their labels",
            description=(
                "Ham above the middle line, spam below it, on a logarithmic scale of messages; P(spam) from "
                "left to right."
            ),
            ham="ham",
            spam="spam",
            x_axis="P(spam), spread by its log-odds",
        ),
    )


def handles_drawing(histogram: Histogram, choice: ThresholdChoice) -> Markup:
    """Return the thresholds of a choice on that chart, with their texts."""
    words = threshold_texts(choice.thresholds)
    return draw_handles(
        histogram,
        [ThresholdHandle(name, name, words[name], threshold) for name, threshold in thresholds_of(choice).items()],
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
    """Return the chart of the error trade-off, with its texts; None without ham or without spam."""
    promised = [choice.error_counts for choice in result.budgets if math.isfinite(choice.spam_threshold)]
    texts = DetTexts(
        title="Ham lost and spam missed, by threshold",
        description=(
            "A curve from few ham lost and much spam missed to the reverse, with the 95 % interval as a "
            "band. Circle: in force. Diamond: tried. Crosses: budgets that can be promised. The lower left "
            "corner is the best."
        ),
        x_axis="ham called spam (%)",
        y_axis="spam missed (%)",
        present="in force",
        chosen="tried",
    )
    return draw_det(result.sample, promised, comparison.present.error_counts, comparison.shown.error_counts, texts)


def table_row(choice: ThresholdChoice, ratio: float) -> dict[str, Any]:
    """Return a row of the table of ``tune``."""
    return {
        "name": choice.name,
        "unsure": choice.unsure_counts.ham + choice.unsure_counts.spam,
        "from": format_threshold_rounded_up(choice.spam_threshold),
        "measures": outcome_measures(choice, ratio),
    }


def policy_row(named: NamedPolicy, basis: TuningBasis) -> dict[str, Any]:
    """Return a policy in force: its thresholds now, what it promises, and its outcome."""
    thresholds = basis.thresholds(named.policy)
    return {
        "named": named,
        "words": threshold_texts(thresholds),
        "promise": thresholds.promise,
        "measures": error_measures(count_errors_at(basis.sample, thresholds)),
    }


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
        "use": (
            f"{lost:,} lost, {rate * messages:.1f} allowed, of {messages:,} ham "
            f"(p {overdrawn_p_value(messages, rate, lost):.2f})"
        )
        if rate in in_force
        else "",
    }


def budget_chart_values(rate: float, uses: Sequence[BudgetUse]) -> dict[str, Any]:
    """Return the chart of a budget's use over time, and the rows of the table beside it, the last as of now."""
    now = uses[-1]
    texts = BudgetTexts(
        title=f"The budget of {format_rate(rate)}: ham lost and allowed over time",
        description=(
            f"{now.called_spam:,} ham lost and {rate * now.messages:.1f} allowed, of {now.messages:,} ham "
            "that came."
        ),
        y_axis="ham",
        lost="lost",
        allowed="allowed",
        first=_day(uses[0].at),
        last=_day(now.at),
    )
    step = -(-len(uses) // _TABLE_POINTS)
    rows = [(use.at, use.messages, use.called_spam, rate * use.messages) for use in uses[::-1][::step][::-1]]
    return {"title": texts.title, "drawing": draw_budget_use(rate, uses, texts), "rows": rows}


def format_rate(rate: float) -> str:
    """Return a rate in percent."""
    return f"{100 * rate:g} %"


def _day(at: float) -> str:
    return time.strftime("%Y-%m-%d", time.localtime(at))
