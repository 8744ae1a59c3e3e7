"""What a run of the benchmarks finds: figures with all their rounds, what was skipped and why, on what machine.

Rules: a figure keeps every value that was measured; the page and the targets go by the median.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

OURS = "nbstream"


@dataclass(frozen=True, slots=True)
class Figure:
    """One measure of one program: ``values`` are those of the rounds, ``unit`` one of those in ``plan``."""

    part: str
    case: str
    who: str
    unit: str
    values: tuple[float, ...]

    @property
    def median(self) -> float:
        """The figure that counts."""
        return statistics.median(self.values)


@dataclass(frozen=True, slots=True)
class Skip:
    """What was not measured, and why."""

    part: str
    what: str
    why: str


@dataclass(slots=True)
class Report:
    """All that one run found; ``machine`` holds its facts, ``took`` the seconds of each part."""

    machine: dict[str, str]
    figures: list[Figure] = field(default_factory=list)
    skips: list[Skip] = field(default_factory=list)
    took: dict[str, float] = field(default_factory=dict)

    def find(self, part: str, case: str, unit: str, who: str = OURS) -> Figure | None:
        """The figure, if it was measured."""
        wanted = (part, case, unit, who)
        return next((f for f in self.figures if (f.part, f.case, f.unit, f.who) == wanted), None)

    def add(self, other: Report) -> None:
        """Take over what another report found."""
        self.machine |= other.machine
        self.figures += other.figures
        self.skips += other.skips
        self.took |= other.took

    def to_json(self) -> str:
        """As ``from_json`` reads it."""
        return json.dumps(asdict(self), indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Report:
        """What ``to_json`` wrote."""
        found: dict[str, Any] = json.loads(text)
        figures = [Figure(**{**each, "values": tuple(each["values"])}) for each in found["figures"]]
        return cls(found["machine"], figures, [Skip(**each) for each in found["skips"]], found["took"])


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest of the values that at least this share of them does not exceed (nearest rank)."""
    ranked = sorted(values)
    return ranked[max(0, -int(-share * len(ranked) // 1) - 1)]
