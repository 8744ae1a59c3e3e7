"""First scores: the P(spam) that messages had before their first label, the recent ones of each class.

Rules: pure. What is kept is what the ledger's entries say, so a first score leaves with its entry and comes back
with it; of the rest only the oldest go. The order is by time, then by the packed bytes, which is also the order
of a Redis sorted set: a copy that is fed the same changes, in any number of repeats, holds the same.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from nbstream.bayes.counts import CLASSES
from nbstream.policy.config_bounds import MAX_BUDGETS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

# What repr() writes of a float that is not below 0, and Redis reads.
_FLOAT_PATTERN = rb"[0-9]{1,20}(\.[0-9]{1,20})?(e[+-]?[0-9]{1,3})?"
_PACKED_PATTERN = re.compile(
    _FLOAT_PATTERN
    + rb" [0-9A-Za-z_.-]{1,100} "
    + _FLOAT_PATTERN
    + rb"( "
    + _FLOAT_PATTERN
    + rb":[01]){0,%d}" % MAX_BUDGETS
)


@dataclass(frozen=True, slots=True)
class FirstScore:
    """One message's P(spam) before its first label, at a time in seconds since the epoch.

    ``budgets`` are the false-positive rates that were to be kept at that moment, promised or not yet, each with
    whether the message was called spam under it.
    """

    at: float
    message_key: str
    probability: float
    spam_by_budget: tuple[tuple[float, bool], ...] = ()

    def pack(self) -> bytes:
        """As it is stored; no part of it holds white space."""
        called = [f"{rate!r}:{int(spam)}" for rate, spam in self.spam_by_budget]
        return " ".join([repr(self.at), self.message_key, repr(self.probability), *called]).encode()

    @classmethod
    def unpack(cls, packed: bytes) -> FirstScore:
        """What ``pack`` packed; ``ValueError`` for anything else."""
        if not _PACKED_PATTERN.fullmatch(packed):
            raise ValueError("this is no first score")
        at, message_key, probability, *called = packed.decode().split(" ")
        pairs = [each.split(":") for each in called]
        budgets = tuple((float(rate), spam == "1") for rate, spam in pairs)
        first = cls(float(at), message_key, float(probability), budgets)
        if not (math.isfinite(first.at) and first.probability <= 1):
            raise ValueError("this is no first score")
        return first


_TimeOrderKey: TypeAlias = tuple[float, bytes, float]
"""Time, packed bytes and P(spam), by which they are in order."""


class FirstScoreWindow:
    """The first scores of one class."""

    def __init__(self) -> None:
        self._by_time: list[_TimeOrderKey] = []
        self._score_by_packed: dict[bytes, FirstScore] = {}
        self._probabilities: list[float] = []  # the same, smallest first
        self._by_budget: dict[float, list[_TimeOrderKey]] = defaultdict(list)  # by rate, in the order of time
        self._called_spam_by_budget: dict[float, list[_TimeOrderKey]] = defaultdict(list)
        self.change_count = 0
        """Grows with every change: what was computed before it is out of date."""

    def __len__(self) -> int:
        return len(self._by_time)

    def add(self, packed: bytes) -> None:
        """Put one; one that is there already stays."""
        if packed in self._score_by_packed:
            return
        first = self._score_by_packed[packed] = FirstScore.unpack(packed)
        place = first.at, packed, first.probability
        for places in self._ordered_lists(first):
            insort(places, place)
        insort(self._probabilities, first.probability)
        self.change_count += 1

    def remove(self, packed: bytes) -> None:
        """Take one out, if it is there."""
        first = self._score_by_packed.pop(packed, None)
        if first is None:
            return
        place = first.at, packed, first.probability
        for places in self._ordered_lists(first):
            del places[bisect_left(places, place)]
        del self._probabilities[bisect_left(self._probabilities, first.probability)]
        self.change_count += 1

    def remove_before(self, packed: bytes) -> None:
        """Take out all that are older than this one."""
        first = FirstScore.unpack(packed)
        for _, each, _ in self._by_time[: bisect_left(self._by_time, (first.at, packed, first.probability))]:
            self.remove(each)

    def keep_newest(self, count: int) -> bytes | None:
        """Take out the oldest until ``count`` are left; the oldest of these where any went."""
        surplus = self._by_time[: max(0, len(self._by_time) - count)]
        for _, each, _ in surplus:
            self.remove(each)
        return self._by_time[0][1] if surplus and self._by_time else None

    @property
    def ascending_probabilities(self) -> Sequence[float]:
        """P(spam) of all, the smallest first."""
        return self._probabilities

    def recent_probabilities(self, count: int | None = None) -> list[float]:
        """P(spam) of the last ``count``, or of all, in the order of time."""
        return [probability for _, _, probability in self._by_time[-count if count else 0 :]]

    def scores(self) -> list[FirstScore]:
        """All, in the order of time."""
        return [self._score_by_packed[packed] for _, packed, _ in self._by_time]

    def budget_use(self, rate: float) -> tuple[int, int]:
        """Of those that came while ``rate`` was to be kept: how many, and how many were called spam."""
        return len(self._by_budget[rate]), len(self._called_spam_by_budget[rate])

    def budget_credit(self, rate: float, most: float) -> float:
        """How many more may be called spam by what ``rate`` allows of those that came while it was to be kept.

        Each of them, in the order of time, adds the rate, and takes one away where it was called spam; what is
        above ``most`` at any moment is forfeit.
        """
        seen, called = self._by_budget[rate], self._called_spam_by_budget[rate]
        now = rate * len(seen) - len(called)
        # The highest that it would ever have been: it only falls where one was called spam.
        before = (rate * bisect_left(seen, place) - count for count, place in enumerate(called))
        return now - max(0.0, max([now, *before]) - most)

    def _ordered_lists(self, first: FirstScore) -> Iterator[list[_TimeOrderKey]]:
        """The lists in the order of time that it is in."""
        yield self._by_time
        for rate, spam in first.spam_by_budget:
            yield self._by_budget[rate]
            if spam:
                yield self._called_spam_by_budget[rate]


class FirstScores:
    """The first scores of a model, by label."""

    def __init__(self) -> None:
        self._windows: Mapping[str, FirstScoreWindow] = {label: FirstScoreWindow() for label in CLASSES}

    def __getitem__(self, label: str) -> FirstScoreWindow:
        return self._windows[label]

    def apply_change(self, change: Mapping[bytes, bytes]) -> None:
        """Do as a change of the model did; ``ValueError`` for what cannot be read."""
        for label, window in self._windows.items():
            gone, come, oldest = (
                change.get(f"first:{what}:{label}".encode()) for what in ("gone", "come", "oldest")
            )
            if gone is not None:
                window.remove(gone)
            if come is not None:
                window.add(come)
            if oldest is not None:
                window.remove_before(oldest)

    def probabilities(self, label: str) -> NDArray[np.float64]:
        """P(spam) of the messages of one label, in the order of time."""
        return np.array(self._windows[label].recent_probabilities(), dtype=np.float64)

    def labelled_probabilities(self) -> list[tuple[float, str, float]]:
        """Time (seconds since the epoch), label and P(spam) of all, in the order of time."""
        return sorted(
            (first.at, label, first.probability)
            for label, window in self._windows.items()
            for first in window.scores()
        )
