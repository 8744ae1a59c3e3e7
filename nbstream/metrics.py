"""The metrics of one process in the format of Prometheus, alone or merged with those of all that count together.

Rules: several processes count together in files that each maps into its memory. Every process has files of its
own, named after its worker slot and not after its process id. A worker that replaces a dead one continues its
counts, however that one died; there are never more files than slots, and the sum over all files is always what was
counted. The folder contains nothing that a restart needs.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Gauge, generate_latest, values
from prometheus_client.core import Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path


class MetricsRegistry(Collector):
    """The metrics of one process.

    ``shared_folder`` is the folder in which several processes count together, where they do
    (``join_folder``): each of them then exports the counts and the state of all. ``counts_at_once`` is
    how many events of one metric are counted together, or fewer before the metrics are read: that is faster. In a
    shared folder it is 1, since what was counted there outlives its process.
    """

    def __init__(self, shared_folder: Path | None = None) -> None:
        self.counts_at_once = 64 if shared_folder is None else 1
        self.counts = CollectorRegistry()
        self._shared_folder = shared_folder
        self._refreshers: list[Callable[[], object]] = []

    def refresh_by(self, refresh: Callable[[], object]) -> None:
        """Call ``refresh`` now, and each time before metrics are read: it sets gauges to what holds then."""
        self._refreshers.append(refresh)
        refresh()

    def refresh(self) -> None:
        """Set the gauges of this process to what holds now."""
        for refresh in self._refreshers:
            refresh()

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics: where several processes count together, those of all workers of this daemon."""
        self.refresh()
        families = self.counts.collect() if self._shared_folder is None else self._merged(self._shared_folder)
        for family in families:
            family.samples = [sample for sample in family.samples if not math.isnan(sample.value)]
            yield family

    def render(self) -> bytes:
        """Return the same as ``collect`` in Prometheus's text format."""
        return generate_latest(self)

    def sums_by_label(self, series: str, label: str) -> Mapping[str, int]:
        """Return the sums of the series of this name, by the value of one label, over all processes."""
        sums = Counter[str]()
        for family in self.collect():
            for sample in family.samples:
                if sample.name == series:
                    sums[sample.labels[label]] += int(sample.value)
        return dict(sums)

    def _merged(self, folder: Path) -> Iterable[Metric]:
        """Yield the metrics of all processes, with the names of those that none has counted yet."""
        # The library's collect and mark_process_dead are not used: they take the folder's name as a pattern.
        merged = MultiProcessCollector.merge(list(map(str, folder.glob("*.db"))))  # type: ignore[no-untyped-call]
        families = {family.name: family for family in merged}
        for family in self.counts.collect():
            yield families.pop(family.name, None) or Metric(family.name, family.documentation, family.type)
        yield from families.values()


class StateGauge:
    """A gauge whose series come and go: it exports those that were set last, and no others.

    The files that several processes share forget no series. One that is gone is NaN there.
    """

    def __init__(
        self, registry: MetricsRegistry, name: str, documentation: str, labels: Sequence[str] = ()
    ) -> None:
        self._gauge = Gauge(
            name, documentation, labels, registry=registry.counts, multiprocess_mode="livemostrecent"
        )
        self._known: set[tuple[str, ...]] = set() if labels else {()}
        self.set({})

    def set(self, values: Mapping[tuple[str, ...], float]) -> None:
        """Export these values by the values of the labels."""
        self._known |= values.keys()
        for labels in self._known:
            (self._gauge.labels(*labels) if labels else self._gauge).set(values.get(labels, math.nan))


SUPERVISOR = "supervisor"
"""The name of the supervisor among the members; the others are the numbers of the worker slots."""

_FILE_KINDS = (
    "counter",
    "histogram",
    "gauge_mostrecent",
    "gauge_livemostrecent",
    "gauge_livemax",
    "gauge_livemin",
    "gauge_livesum",
)
_FILE_BYTES = 1 << 18  # several times what all series take: a file that has to grow may find the disk full


def prepare_folder(folder: Path, members: Iterable[str]) -> None:
    """Make the folder ready for these members, with all counts at 0. Raises OSError."""
    folder.mkdir(mode=0o700, exist_ok=True)
    for file in folder.glob("*.db"):
        file.unlink()
    for member in members:
        create_member_files(folder, member)


def create_member_files(folder: Path, member: str) -> None:
    """Make the member's files where they are missing, and allocate all their blocks. Raises OSError.

    SIGBUS kills a process that writes to a mapped file's block for which the disk has no room (mmap(2)). A
    file gets its name last: nobody can read the metrics of any process while one file is shorter than its head.
    """
    new = folder / f"{member}.new"
    for kind in _FILE_KINDS:
        file = folder / f"{kind}_{member}.db"
        if file.exists():
            continue
        descriptor = os.open(new, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(descriptor, 0, _FILE_BYTES)
        finally:
            os.close(descriptor)
        new.rename(file)


def join_folder(folder: Path, member: str) -> None:
    """Make this process count in the folder from now on, as this member.

    prometheus_client has this setting for a whole process only, not for one registry.
    """
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(folder)
    values.ValueClass = values.MultiProcessValue(lambda: member)  # type: ignore[no-untyped-call]


def member_died(folder: Path, member: str) -> None:
    """Remove what a dead member measured of itself; what it counted stays."""
    with suppress(OSError):  # a gauge too many is no reason to end the daemon
        for file in folder.glob(f"gauge_live*_{member}.db"):
            file.unlink()
