"""Prequential scores: the P(spam) that messages had before their first label. The recent ones are kept.

Rules: pure. A prequential score belongs to a ledger entry: it goes and comes with the entry. Apart from that only
the oldest are dropped. The order is by time, then by the packed bytes, which is also the order of a Redis sorted
set. Therefore two copies that get the same changes, each repeated any number of times, have the same content.
"""

from __future__ import annotations

import math
import re
from array import array
from bisect import bisect_left, bisect_right, insort
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from nbstream.bayes.counts import CLASSES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nbstream.policy.verdict import ModelState

# How repr() writes a float that is not negative; Redis reads it too.
_FLOAT_PATTERN = rb"[0-9]{1,20}(\.[0-9]{1,20})?(e[+-]?[0-9]{1,3})?"
_PACKED_PATTERN = re.compile(_FLOAT_PATTERN + rb" [0-9A-Za-z_.-]{1,100} " + _FLOAT_PATTERN)


@dataclass(frozen=True, slots=True)
class PrequentialScore:
    """The P(spam) that one message had before its first label, ``at`` that time in seconds since the epoch."""

    at: float
    message_key: str
    probability: float

    def pack(self) -> bytes:
        """Return the bytes that are stored. The parts have spaces between them and none in them."""
        return f"{self.at!r} {self.message_key} {self.probability!r}".encode()

    @classmethod
    def unpack(cls, packed: bytes) -> PrequentialScore:
        """Return the prequential score that ``pack`` packed. Raises ``ValueError`` for anything else."""
        if not _PACKED_PATTERN.fullmatch(packed):
            raise ValueError("this is no prequential score")
        at, message_key, probability = packed.decode().split(" ")
        prequential_score = cls(float(at), message_key, float(probability))
        if not (math.isfinite(prequential_score.at) and prequential_score.probability <= 1):
            raise ValueError("this is no prequential score")
        return prequential_score


_TimeOrderKey: TypeAlias = tuple[float, bytes, float]
"""Time, packed bytes and P(spam): prequential scores are in the order of these."""


class ScoreWindow:
    """The recent prequential scores of one class."""

    def __init__(self) -> None:
        self._by_time: list[_TimeOrderKey] = []
        self._score_by_packed: dict[bytes, PrequentialScore] = {}
        self._probabilities = array("d")  # of all prequential scores, smallest first; numpy copies it at once
        self.change_count = 0
        """Grows with every change: what was computed with a smaller count is out of date."""

    def __len__(self) -> int:
        return len(self._by_time)

    def add(self, packed: bytes) -> None:
        """Add a prequential score. One that is there already stays."""
        if packed in self._score_by_packed:
            return
        prequential_score = self._score_by_packed[packed] = PrequentialScore.unpack(packed)
        insort(self._by_time, (prequential_score.at, packed, prequential_score.probability))
        insort(self._probabilities, prequential_score.probability)
        self.change_count += 1

    def remove(self, packed: bytes) -> None:
        """Remove a prequential score if it is there."""
        prequential_score = self._score_by_packed.pop(packed, None)
        if prequential_score is None:
            return
        del self._by_time[
            bisect_left(self._by_time, (prequential_score.at, packed, prequential_score.probability))
        ]
        del self._probabilities[bisect_left(self._probabilities, prequential_score.probability)]
        self.change_count += 1

    def remove_before(self, packed: bytes) -> None:
        """Remove all prequential scores that are older than this one."""
        prequential_score = PrequentialScore.unpack(packed)
        end = bisect_left(self._by_time, (prequential_score.at, packed, prequential_score.probability))
        for _, older, _ in self._by_time[:end]:
            self.remove(older)

    def keep_newest(self, count: int) -> bytes | None:
        """Remove the oldest until ``count`` are left.

        Returns the oldest that is left, or None if none was removed.
        """
        surplus = self._by_time[: max(0, len(self._by_time) - count)]
        for _, packed, _ in surplus:
            self.remove(packed)
        return self._by_time[0][1] if surplus and self._by_time else None

    def apply_step(self, step: bytes, packed: bytes) -> None:
        """Apply what a change says of one prequential score. Raises ``ValueError`` for anything else."""
        match step:
            case b"gone":
                self.remove(packed)
            case b"come":
                self.add(packed)
            case b"oldest":
                self.remove_before(packed)
            case _:
                raise ValueError(f"{step!r:.60} is no step of a prequential score")

    @property
    def ascending_probabilities(self) -> Sequence[float]:
        """P(spam) of all prequential scores, the smallest first."""
        return self._probabilities

    def last_probabilities(self, count: int) -> list[float]:
        """Return P(spam) of the last ``count`` prequential scores, at least one, in the order of time."""
        return [probability for _, _, probability in self._by_time[-count:]]

    def probabilities_until(self, at: float) -> list[float]:
        """Return P(spam) of what was labelled at that time or before, in the order of time."""
        end = bisect_right(self._by_time, at, key=lambda order_key: order_key[0])
        return [probability for _, _, probability in self._by_time[:end]]

    def time_of(self, n: int) -> float | None:
        """Return when the n-th oldest prequential score was labelled; None where there are fewer."""
        return self._by_time[n - 1][0] if 0 < n <= len(self._by_time) else None

    def scores(self) -> list[PrequentialScore]:
        """Return all prequential scores in the order of time."""
        return [self._score_by_packed[packed] for _, packed, _ in self._by_time]


class PrequentialScores:
    """The recent prequential scores of a model, by label."""

    def __init__(self) -> None:
        self._windows: Mapping[str, ScoreWindow] = {label: ScoreWindow() for label in CLASSES}

    def __getitem__(self, label: str) -> ScoreWindow:
        return self._windows[label]

    def learned_at(self, state: ModelState) -> float:
        """Return when the last class had as many messages as the model needs, as far as prequential scores tell.

        What was labelled until then had its P(spam) from a model that was still learning. Messages without a
        prequential score count as learned before those that have one: of many labels, only the newest keep theirs.
        It is -inf where the model is still learning, or had learned before the oldest prequential score.
        """
        times = []
        for label, needed in state.needed.items():
            without_score = max(0, state.learned.get(label, 0) - len(self[label]))
            if needed > without_score:
                times.append(self[label].time_of(needed - without_score))
        return -math.inf if None in times else max((at for at in times if at is not None), default=-math.inf)

    def apply_change(self, change: Mapping[bytes, bytes]) -> None:
        """Apply a change of the model. Raises ``ValueError`` for a change that cannot be read.

        It has a field for each label, such as ``first:spam``, with words and prequential scores in turn, separated
        by line feeds, in the order of the lessons: a prequential score is ``gone``, or has ``come``, or is now the
        ``oldest``.
        """
        for label, window in self._windows.items():
            if f"first:{label}".encode() in change:
                steps = change[f"first:{label}".encode()].split(b"\n")
                for step, packed in zip(steps[0::2], steps[1::2], strict=True):
                    window.apply_step(step, packed)
