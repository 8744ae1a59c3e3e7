"""First scores for tests."""

from __future__ import annotations

import random
from collections.abc import Iterable

from nbstream.bayes.calibration import sigmoid
from nbstream.policy.first_scores import FirstScore, FirstScores


def first_scores(pairs: Iterable[tuple[str, float]]) -> FirstScores:
    """Labels and probabilities in order of learning."""
    found = FirstScores()
    for number, (label, probability) in enumerate(pairs, start=1):
        found[label].add(FirstScore(float(number), f"m{number}", probability).pack())
    return found


def drawn(hams: int, spams: int, seed: int = 1) -> FirstScores:
    """Scores as a filter gives them, with some of each class on the wrong side."""
    draw = random.Random(seed)
    pairs = [("ham", sigmoid(draw.gauss(-8.0, 3.0))) for _ in range(hams)]
    pairs += [("spam", sigmoid(draw.gauss(9.0, 4.0))) for _ in range(spams)]
    draw.shuffle(pairs)
    return first_scores(pairs)
