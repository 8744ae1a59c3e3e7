"""The bench of each part: mail, a taught model, a folder to work in, and a report for its figures."""

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
    """How much is measured; tests use small numbers."""

    taught: int = 10_000
    """Messages of the stream that the model has learned; the messages after them are checked."""
    checked: int = 2_000
    taught_to_spamassassin: int = 4_000
    rounds: int = 3
    seconds: float = 5.0
    """Of each round of load on a listener."""
    learned: int = 2_000
    """In each turn of learning in bulk, each message once."""
    learned_slowly: int = 200
    """The first of them, by peers that are slow."""
    lessons: tuple[tuple[int, int], ...] = ((1, 300), (4, 800), (16, 1_200))
    """Connections, and the lessons of a turn of HTTP over them, each message once."""
    lesson_rates: tuple[int, ...] = (0, 1, 10)
    """Lessons a second beside the mail whose highest rate is measured."""
    vocabularies: tuple[int, ...] = (100_000, 1_000_000, 2_000_000)


LARGE = Scale(vocabularies=(100_000, 1_000_000, 2_000_000, 10_000_000))
"""With a further model that takes minutes to make and to load."""


@dataclass(slots=True)
class Bench:
    """The run of one part; ``shared`` is the folder of taught models of all parts. Figures are saved at once."""

    part: str
    index: Path
    folder: Path
    shared: Path
    report: Report
    saved: Path
    scale: Scale = field(default_factory=Scale)

    def record(self, case: str, unit: str, *values: float, who: str = OURS) -> None:
        """Record a figure with one value for each round."""
        self.report.figures.append(Figure(self.part, case, who, unit, values))
        self.save()

    def skip(self, what: str, why: str) -> None:
        """Record that something is not measured, and why."""
        self.report.skips.append(Skip(self.part, what, why))
        self.save()

    def save(self) -> None:
        """Save the report now, in case the part is ended."""
        self.saved.write_text(self.report.to_json(), encoding="utf-8")

    @contextmanager
    def skipping(self, what: str) -> Iterator[None]:
        """Record a skip if something in the block cannot be measured."""
        try:
            yield
        except CannotMeasure as error:
            self.skip(what, str(error))

    def new_folder(self, name: str) -> Path:
        """Make a folder with that prefix that all users can read, because some peers do not stay root."""
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
        """The messages of one turn of learning."""
        return self.unseen[: self.scale.learned]

    @property
    def unseen(self) -> list[Labelled]:
        """All messages that no model has learned, the first of them those that are checked."""
        return messages(self.index)[self.scale.taught :]


def messages(index: Path) -> list[Labelled]:
    """Return the labels and files of all messages of an index."""
    lines = (line.split("\t") for line in index.read_text().splitlines())
    return [(label, index.parent / path) for label, path in lines]
