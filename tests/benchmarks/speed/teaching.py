"""The models of the first messages, made once before all measurements: ours, and meanwhile those of the peers."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from tests.benchmarks.speed.bench import Bench
from tests.benchmarks.speed.bogofilter import Bogofilter
from tests.benchmarks.speed.daemons import taught
from tests.benchmarks.speed.processes import CannotMeasure
from tests.benchmarks.speed.rspamd import rspamd
from tests.benchmarks.speed.spamassassin import spamd


def run(bench: Bench) -> None:
    """Teach all; the part that would measure a missing peer reports it."""
    with ThreadPoolExecutor(1) as pool:
        peers = pool.submit(_teach_peers, bench)
        taught(bench)
        peers.result()


def _teach_peers(bench: Bench) -> None:
    with suppress(CannotMeasure):
        Bogofilter(bench.shared / "bogofilter", bench.taught)
    with suppress(CannotMeasure), rspamd(bench.new_folder("rspamd"), bench.shared / "rspamd.rdb", bench.taught):
        pass
    first = bench.taught[: bench.scale.taught_to_spamassassin]
    with suppress(CannotMeasure), spamd(bench.new_folder("spamassassin"), bench.shared / "spamassassin", first):
        pass
