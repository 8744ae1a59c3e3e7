"""A filter over a model in memory, for targets that need no more of a store."""

from __future__ import annotations

from nbstream.bayes.calibration import Calibration
from nbstream.bayes.classifier import Classifier
from nbstream.filter import Filter, FilterParts, FilterPolicy
from nbstream.policy.thresholds import ThresholdPolicy
from nbstream.store.model.memory_model import MemoryModel
from nbstream.tokens.tokenizer import Tokenizer

TIME = 1_800_000_000.0
TOKENIZER = Tokenizer()


def memory_filter(model: MemoryModel) -> Filter:
    """A filter that decides from the first message of each class on, at a fixed time."""
    parts = FilterParts(
        tokenizer=TOKENIZER,
        classifier=Classifier(),
        calibration=Calibration(),
        model=model,
        counts=model,
        clock=lambda: TIME,
    )
    return Filter(parts, FilterPolicy(ThresholdPolicy(), {"spam": 1, "ham": 1}))
