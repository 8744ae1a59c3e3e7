"""``nbstream.bayes.clues``; ``tests/cli/commands/test_top_tokens.py`` has the numbers."""

from __future__ import annotations

import numpy as np

from nbstream.bayes.clues import NamedCounts, top_tokens
from nbstream.bayes.counts import Totals

NAMES = [b"body:prize", b"=score", b"subject.word:prize", b"body:lunch", b"body:the", b"body:f\xc3\xbcr"]
ROWS = np.array([[0, 9], [500, 500], [0, 4], [8, 0], [5, 5], [2, 0]], dtype=np.int64) * 1000
COUNTS = NamedCounts(NAMES, ROWS, Totals((9, 9), (15000, 18000), 5))


def tokens(label: str, k: int = 10) -> list[str]:
    return [vote.token for vote in top_tokens(COUNTS, label, k)]


def test_the_strongest_for_a_class_come_first_and_sums_are_no_tokens() -> None:
    assert tokens("spam", 2) == ["body:prize", "subject.word:prize"]
    assert tokens("ham") == ["body:lunch", "body:für", "body:the", "subject.word:prize", "body:prize"]
