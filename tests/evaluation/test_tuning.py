"""The counts of ``tuning``, compared with deciding about the messages one by one."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from nbstream.evaluation import tuning
from nbstream.evaluation.tuning import LabelledSample
from nbstream.policy.verdict import ModelState, Thresholds, decide_verdict
from tests.harness.scored import prequential_scores

PROBABILITIES = (0.01, 0.2, 0.5, 0.7, 0.95, 0.999)  # few, so that many are equal, to each other and to thresholds

Pairs = list[tuple[str, float]]
labelled = st.lists(st.tuples(st.sampled_from(["ham", "spam"]), st.sampled_from(PROBABILITIES)), max_size=60)
two_or_three = st.lists(st.sampled_from((*PROBABILITIES, 0.3)), min_size=2, max_size=3).map(sorted)
some_thresholds = two_or_three.map(
    lambda values: Thresholds(values[0], values[1], values[2] if len(values) > 2 else None)
)

READY = ModelState({})


def verdict(p: float, thresholds: Thresholds) -> str:
    return str(decide_verdict(p, thresholds, READY)[0])


@given(labelled, some_thresholds)
def test_counts_equal_decisions_one_by_one(pairs: Pairs, thresholds: Thresholds) -> None:
    sample = LabelledSample.from_prequential_scores(prequential_scores(pairs))

    errors = tuning.count_errors(sample, thresholds)

    decided = Counter((label, decide_verdict(p, thresholds, READY)[0]) for label, p in pairs)
    called_counts = Counter({(label, is_spam): 0 for label in ("ham", "spam") for is_spam in (True, False)})
    for (label, decision), count in decided.items():
        called_counts[label, decision.is_spam] += count
    assert errors.ham_called_spam == called_counts["ham", True]
    assert errors.spam_missed == called_counts["spam", False]
    assert (errors.ham, errors.spam) == (
        sum(label == "ham" for label, _ in pairs),
        sum(label == "spam" for label, _ in pairs),
    )
    found = {
        "unsure": (errors.ham_unsure, errors.spam_unsure),
        "reject": (errors.ham_rejected, errors.spam_rejected),
    }
    for wanted, counts in found.items():
        expected = [
            sum(n for (own_label, decision), n in decided.items() if (own_label, decision) == (label, wanted))
            for label in ("ham", "spam")
        ]
        assert list(counts) == expected


@given(st.lists(st.tuples(st.sampled_from(["ham", "spam"]), st.floats(0, 1)), max_size=60))
def test_the_histogram_has_each_message_in_the_class_of_its_probability(pairs: Pairs) -> None:
    classes = tuning.score_classes(LabelledSample.from_prequential_scores(prequential_scores(pairs)))

    assert (classes[0].low, classes[-1].high) == (0, 1)
    assert all(each.high == later.low for each, later in pairwise(classes))
    for each in classes:
        inside = [label for label, p in pairs if each.low <= p < each.high or p == each.high == 1]
        assert (each.ham, each.spam) == (inside.count("ham"), inside.count("spam"))


@given(labelled, some_thresholds, some_thresholds)
def test_changes_are_the_verdicts_that_differ(pairs: Pairs, before: Thresholds, after: Thresholds) -> None:
    errors = tuning.compare_verdicts(
        LabelledSample.from_prequential_scores(prequential_scores(pairs)), before, after
    )

    expected: Counter[tuple[str, str, str]] = Counter()
    for label, p in pairs:
        if verdict(p, before) != verdict(p, after):
            expected[label, verdict(p, before), verdict(p, after)] += 1
    assert (errors.messages, dict(errors.counts)) == (len(pairs), dict(expected))
    for label in ("ham", "spam"):
        hits = [
            sum(decide_verdict(p, thresholds, READY)[0].is_spam for own_label, p in pairs if own_label == label)
            for thresholds in (before, after)
        ]
        assert errors.called_spam_change(label) == hits[1] - hits[0]


@given(labelled, st.sampled_from(PROBABILITIES), st.floats(1, 9999))
def test_estimates_lie_within_their_intervals_or_are_unknown(pairs: Pairs, threshold: float, ratio: float) -> None:
    errors = tuning.count_errors(
        LabelledSample.from_prequential_scores(prequential_scores(pairs)), Thresholds(threshold, threshold)
    )

    known = {"lost": errors.ham > 0, "missed": errors.spam > 0, "cost": errors.ham > 0 and errors.spam > 0}
    for name, estimate in (
        ("lost", errors.ham_called_spam_rate()),
        ("missed", errors.spam_missed_rate()),
        ("cost", errors.relative_cost(ratio)),
    ):
        is_within = estimate.lower <= estimate.value <= estimate.upper
        assert is_within if known[name] else math.isnan(estimate.value)
