"""What each part is handed: mail, a taught model, a folder to work in, and a place for its figures."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.benchmarks.speed.figures import OURS, Figure, Report, Skip
from tests.benchmarks.speed.processes import CannotMeasure

Labelled = tuple[str, Path]


@dataclass(slots=True)
class Scale:
    """How much is measured; a test makes it small."""

    taught: int = 10_000
    """Messages of the stream that the model knows; those after it are checked."""
    checked: int = 2_000
    taught_to_spamassassin: int = 4_000
    rounds: int = 3
    seconds: float = 5.0
    """Of each round of load on a door."""
    learned: int = 2_000
    vocabularies: tuple[int, ...] = (100_000, 1_000_000, 2_000_000)


LARGE = Scale(vocabularies=(100_000, 1_000_000, 2_000_000, 5_000_000))
"""With a model that takes minutes to make and to start with."""


@dataclass(slots=True)
class Bench:
    """The run of one part; in ``kept`` are taught models for all parts. The report is saved with each figure."""

    part: str
    index: Path
    folder: Path
    kept: Path
    report: Report
    saved: Path
    scale: Scale = field(default_factory=Scale)

    def record(self, case: str, unit: str, *values: float, who: str = OURS) -> None:
        """Keep what was measured, a value of each round."""
        self.report.figures.append(Figure(self.part, case, who, unit, values))
        self.save()

    def skip(self, what: str, why: str) -> None:
        """Say what is not measured."""
        self.report.skips.append(Skip(self.part, what, why))
        self.save()

    def save(self) -> None:
        """Keep what is known by now, should the part be ended."""
        self.saved.write_text(self.report.to_json(), encoding="utf-8")

    @contextmanager
    def skipping(self, what: str) -> Iterator[None]:
        """What cannot be measured in this block is a skip."""
        try:
            yield
        except CannotMeasure as error:
            self.skip(what, str(error))

    def new_folder(self, name: str) -> Path:
        """A folder of that name, or nearly; all users may look into it, since some peers do not stay root."""
        folder = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self.folder))
        folder.chmod(0o755)
        return folder

    @property
    def taught(self) -> list[Labelled]:
        """The messages that models are taught, in stream order."""
        return messages(self.index)[: self.scale.taught]

    @property
    def checked(self) -> list[Labelled]:
        """The messages that are checked: those that come next in the stream."""
        return messages(self.index)[self.scale.taught :][: self.scale.checked]

    @property
    def learned(self) -> list[Labelled]:
        """The messages by which learning is measured: from the first that are checked on."""
        return messages(self.index)[self.scale.taught :][: self.scale.learned]


def messages(index: Path) -> list[Labelled]:
    """All messages of an index, label and file."""
    lines = (line.split("\t") for line in index.read_text().splitlines())
    return [(label, index.parent / path) for label, path in lines]
