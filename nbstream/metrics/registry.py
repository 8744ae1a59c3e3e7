"""The registries of one process, their rendering, and the sums over all processes that count together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from pathlib import Path


class MetricsRegistry:
    """The metrics of one process.

    ``counts`` has the metrics that this process counts, ``state`` has those that are read at each scrape.
    ``shared_folder`` is the folder in which several processes count together, where they do
    (``metrics.multiprocess``): each of them then exports the sums of all. ``counts_at_once`` is how many events of
    one metric are counted together, or fewer when ``counts`` are collected: that is faster. In a shared folder
    it is 1, since what was counted there outlives its process.
    """

    def __init__(self, shared_folder: Path | None = None) -> None:
        self.counts_at_once = 64 if shared_folder is None else 1
        self.counts = CollectorRegistry()
        self.state = CollectorRegistry()
        self._exported_counts = self.counts
        if shared_folder is not None:
            self._exported_counts = CollectorRegistry()
            self._exported_counts.register(_MultiprocessCollector(shared_folder, self.counts))

    def render(self) -> bytes:
        """Return all metrics in Prometheus's text format."""
        return self.counts_text() + self.state_text()

    async def render_for_listener(self) -> bytes:
        """Return the same as ``render``. It is a coroutine because a supervisor has to wait for its workers."""
        return self.render()

    def counts_text(self) -> bytes:
        """Return what is counted, as the sums of all processes, in Prometheus's text format."""
        return generate_latest(self._exported_counts)

    def state_text(self) -> bytes:
        """Return what is read at each scrape, in Prometheus's text format; all processes read the same model."""
        return generate_latest(self.state)

    def sums_by_label(self, series: str, label: str) -> Mapping[str, int]:
        """Return the sums of the series of this name, by the value of one label, over all processes."""
        sums = Counter[str]()
        for family in self._exported_counts.collect():
            for sample in family.samples:
                if sample.name == series:
                    sums[sample.labels[label]] += int(sample.value)
        return dict(sums)


class _MultiprocessCollector(Collector):
    """The counts of all processes that share a folder, with the names of metrics that none has counted yet."""

    def __init__(self, folder: Path, own_registry: CollectorRegistry) -> None:
        self._folder = folder
        self._own_registry = own_registry

    def collect(self) -> Iterator[Metric]:
        """Yield the sums as they are now."""
        # The library's collect and mark_process_dead are not used: they take the folder's name as a pattern.
        files = list(map(str, self._folder.glob("*.db")))
        sums = MultiProcessCollector.merge(files)  # type: ignore[no-untyped-call]
        families = {family.name: family for family in sums}
        for family in self._own_registry.collect():
            yield families.pop(family.name, None) or Metric(family.name, family.documentation, family.type)
        yield from families.values()
