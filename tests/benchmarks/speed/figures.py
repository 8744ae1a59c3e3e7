"""The report of the benchmarks: figures with all their rounds, what was skipped and why, and the machine.

Rules: a figure keeps every value that was measured; the page and the targets go by the median.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

OURS = "nbstream"


LOAD = "load average before and after"
"""The fact of the machine that says whether something else ran beside."""


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
        """The median of all rounds, which is compared and shown."""
        return statistics.median(self.values)


@dataclass(frozen=True, slots=True)
class Skip:
    """Something that was not measured, and the reason."""

    part: str
    what: str
    why: str


@dataclass(slots=True)
class Report:
    """The results of one run; ``machine`` has the facts of the machine, ``took`` the seconds of each part."""

    machine: dict[str, str]
    figures: list[Figure] = field(default_factory=list)
    skips: list[Skip] = field(default_factory=list)
    took: dict[str, float] = field(default_factory=dict)

    def find(self, part: str, case: str, unit: str, who: str = OURS) -> Figure | None:
        """Return the figure, or None if it was not measured."""
        wanted = (part, case, unit, who)
        return next((f for f in self.figures if (f.part, f.case, f.unit, f.who) == wanted), None)

    def add(self, other: Report) -> None:
        """Add the results of another report."""
        self.machine |= other.machine
        self.figures += other.figures
        self.skips += other.skips
        self.took |= other.took

    def replace_part(self, part: str, measured: Report) -> None:
        """Put the results of one part in place of the former ones, with the version and the load of that run."""
        self.figures = [figure for figure in self.figures if figure.part != part]
        self.figures += [figure for figure in measured.figures if figure.part == part]
        self.skips = [skip for skip in self.skips if skip.part != part]
        self.skips += [skip for skip in measured.skips if skip.part == part]
        self.took[part] = measured.took[part]
        version, load = measured.machine["nbstream"], measured.machine[LOAD]
        self.machine[f"{part}, measured later"] = f"nbstream {version}, load average {load}"

    def to_json(self) -> str:
        """Return the report as JSON."""
        return json.dumps(asdict(self), indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Report:
        """Return the report that ``to_json`` wrote."""
        members: dict[str, Any] = json.loads(text)
        figures = [Figure(**{**figure, "values": tuple(figure["values"])}) for figure in members["figures"]]
        return cls(members["machine"], figures, [Skip(**skip) for skip in members["skips"]], members["took"])


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that is not exceeded by at least this share of the values (nearest rank)."""
    ranked = sorted(values)
    return ranked[max(0, -int(-share * len(ranked) // 1) - 1)]
