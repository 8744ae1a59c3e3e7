"""What may be learned without a person: only what is sure, as much of the one class as of the other."""

from __future__ import annotations

import pytest

from nbstream.policy.autolearn import AutolearnOptions, autolearn_label, is_balanced

PARAMS = AutolearnOptions(ham_margin=0.01, spam_margin=0.99, max_lead=3)


@pytest.mark.parametrize(
    ("probability", "expected"),
    [(0.0, "ham"), (0.01, "ham"), (0.011, None), (0.5, None), (0.989, None), (0.99, "spam"), (1.0, "spam")],
)
def test_only_messages_beyond_the_margins_have_a_label(probability: float, expected: str | None) -> None:
    assert autolearn_label(probability, PARAMS) == expected


@pytest.mark.parametrize(
    ("ham", "spam", "ham_may", "spam_may"),
    [(0, 0, True, True), (2, 0, True, True), (3, 0, False, True), (7, 10, True, False), (10, 8, True, True)],
)
def test_a_class_leads_by_no_more_than_max_lead(ham: int, spam: int, ham_may: bool, spam_may: bool) -> None:
    assert (is_balanced("ham", (ham, spam), PARAMS), is_balanced("spam", (ham, spam), PARAMS)) == (
        ham_may,
        spam_may,
    )
