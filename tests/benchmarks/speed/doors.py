"""Each door under a real load client: one worker, four connections, beside a peer that speaks the same protocol.

The daemon runs as users run it: default configuration, metrics on, its log in a file, its own Redis. CPU is that
of all processes of a side, its Redis included; the client's is not counted, but shares the machine.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

from tests.benchmarks.speed import rspamd
from tests.benchmarks.speed.bench import Bench
from tests.benchmarks.speed.house import daemon, taught, write_config
from tests.benchmarks.speed.plan import CPU_MILLISECONDS, HTTP, RATE
from tests.benchmarks.speed.wrk import Load, Wrk

CONNECTIONS = 4


def run(bench: Bench) -> None:
    """All doors, one after the other."""
    with bench.skipping(HTTP):
        _http(bench)


def _http(bench: Bench) -> None:
    wrk = Wrk(bench.checked, bench.new_folder("wrk"), CONNECTIONS)
    bench.report.machine["wrk"] = wrk.version
    with ExitStack() as stack:
        ours = stack.enter_context(daemon(write_config(taught(bench))))
        sides: dict[str, tuple[Callable[[], float], str]] = {
            "nbstream": (lambda: ours.server.cpu_seconds, ours.address("http"))
        }
        with bench.skipping("rspamd"):
            theirs = stack.enter_context(
                rspamd.rspamd(bench.new_folder("rspamd"), bench.kept / "rspamd.rdb", bench.taught)
            )
            bench.report.machine["rspamd"] = rspamd.version()
            sides["rspamd"] = (lambda: theirs.cpu_seconds, f"127.0.0.1:{theirs.port}")
        found: dict[str, list[tuple[Load, float]]] = {who: [] for who in sides}
        for number in range(1 + bench.scale.rounds):
            for who, (cpu, address) in sides.items():
                before = cpu()
                load = wrk.post(address, "/checkv2", bench.scale.seconds if number else 1.0)
                if number:  # the first is to warm up
                    found[who].append((load, cpu() - before))
    for who, rounds in found.items():
        bench.record(HTTP, RATE, *(load.answers / load.seconds for load, _ in rounds), who=who)
        bench.record(HTTP, CPU_MILLISECONDS, *(1000 * cpu / load.answers for load, cpu in rounds), who=who)
