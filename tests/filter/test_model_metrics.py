"""The gauges that compare P(spam) with labels."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from nbstream.filter.metrics import PrequentialScoreGauges
from nbstream.metrics import MetricsRegistry
from nbstream.policy.thresholds import PrequentialScore, PrequentialScores


def labelled(ham: Iterable[float] = (), spam: Iterable[float] = ()) -> PrequentialScores:
    """Prequential scores with these P(spam)."""
    prequential_scores = PrequentialScores()
    for label, probabilities in (("ham", ham), ("spam", spam)):
        for number, probability in enumerate(probabilities):
            prequential_scores[label].add(PrequentialScore(number, f"{label}{number}", probability).pack())
    return prequential_scores


def exported(prequential_scores: PrequentialScores, name: str, *labels: str) -> dict[Any, float]:
    """The series of this name, by their labels."""
    registry = MetricsRegistry()
    PrequentialScoreGauges(registry).set(prequential_scores)
    samples = next(family for family in registry.collect() if family.name == name).samples
    return {tuple(sample.labels[label] for label in labels): sample.value for sample in samples}


def test_each_labelled_message_is_in_the_bin_of_its_probability() -> None:
    prequential_scores = labelled(ham=[0.0, 0.0005, 0.001, 0.95], spam=[0.94, 0.95, 1.0])

    messages = exported(prequential_scores, "nbstream_calibration_messages", "class", "bin")
    assert {key: value for key, value in messages.items() if value} == {
        ("ham", "0-0.001"): 2,
        ("ham", "0.001-0.01"): 1,
        ("ham", "0.95-0.99"): 1,
        ("spam", "0.9-0.95"): 1,
        ("spam", "0.95-0.99"): 1,
        ("spam", "0.999-1"): 1,
    }
    assert len(messages) == 2 * 13


def test_the_expected_spam_of_a_bin_is_the_sum_of_its_probabilities() -> None:
    prequential_scores = labelled(ham=[0.96], spam=[0.95, 0.97, 0.2])

    expected = exported(prequential_scores, "nbstream_calibration_expected_spam", "bin")

    assert expected[("0.95-0.99",)] == pytest.approx(0.96 + 0.95 + 0.97)
    assert expected[("0.2-0.4",)] == pytest.approx(0.2)
    assert sum(expected.values()) == pytest.approx(0.96 + 0.95 + 0.97 + 0.2)
