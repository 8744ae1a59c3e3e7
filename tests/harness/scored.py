"""Prequential scores for tests."""

from __future__ import annotations

import random
from collections.abc import Iterable

from nbstream.bayes.calibration import sigmoid
from nbstream.policy.thresholds import PrequentialScore, PrequentialScores


def prequential_scores(pairs: Iterable[tuple[str, float]]) -> PrequentialScores:
    """Prequential scores with these labels and probabilities, in order of learning."""
    scores = PrequentialScores()
    for number, (label, probability) in enumerate(pairs, start=1):
        scores[label].add(PrequentialScore(float(number), f"m{number}", probability).pack())
    return scores


def random_scores(hams: int, spams: int, seed: int = 1) -> PrequentialScores:
    """Random scores like those of a filter, with some of each class on the wrong side."""
    generator = random.Random(seed)
    pairs = [("ham", sigmoid(generator.gauss(-8.0, 3.0))) for _ in range(hams)]
    pairs += [("spam", sigmoid(generator.gauss(9.0, 4.0))) for _ in range(spams)]
    generator.shuffle(pairs)
    return prequential_scores(pairs)
