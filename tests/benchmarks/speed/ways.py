"""Each way in which a mail server uses nbstream, beside a bare server of the same protocol: rate, CPU and waits.

Both sides get the same messages by the same client, in turns. The waits are those at half of the highest rate of
nbstream, with messages at random moments, for both sides.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import uvloop

from tests.benchmarks.speed import clients
from tests.benchmarks.speed.bench import Bench
from tests.benchmarks.speed.clients import Connect
from tests.benchmarks.speed.daemons import Daemon, daemon, taught, write_config
from tests.benchmarks.speed.figures import OURS, percentile
from tests.benchmarks.speed.listeners import module, smtp_requests
from tests.benchmarks.speed.plan import (
    BARE,
    BARE_PIPE,
    CONNECTIONS,
    CPU_MILLISECONDS,
    MILLISECONDS,
    PERCENTILES,
    RATE,
    WAYS,
)
from tests.benchmarks.speed.processes import ROOT, CannotMeasure, Served, children_cpu_seconds, free_port, served

FILTER = ROOT / "deploy" / "pipe" / "nbstream-filter"
_COPY = "import shutil, sys; shutil.copyfileobj(sys.stdin.buffer, sys.stdout.buffer)"


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a comparison: its client, and what serves; ``has_processes`` where each message has its own."""

    connect: Connect
    servers: tuple[Served, ...]
    has_processes: bool = False

    @property
    def cpu_seconds(self) -> float:
        """The time that it has used until now."""
        of_processes = children_cpu_seconds() if self.has_processes else 0.0
        return of_processes + sum(server.cpu_seconds for server in self.servers)


@dataclass(frozen=True, slots=True)
class Site:
    """Two daemons with the same model, and a sink that both have as their next hop: one by SMTP, one by LMTP."""

    smtp: Daemon
    lmtp: Daemon
    sink_port: int
    folder: Path


def run(bench: Bench) -> None:
    """Measure all ways, one after the other."""
    with _site(bench) as site:
        for way, measure in _MEASURES.items():
            with bench.skipping(way):
                measure(bench, way, site)


@contextmanager
def _site(bench: Bench) -> Iterator[Site]:
    folder, port = bench.new_folder("ways"), free_port()
    sockets = (
        f'milter: {{listen: "unix:{folder}/milter"}}, spamd: {{listen: "unix:{folder}/spamd"}}, '
        f'dovecot: {{listen: "unix:{folder}/dovecot"}}'
    )
    by_smtp = write_config(taught(bench), sockets, relay=f'{{next_hop: "smtp://127.0.0.1:{port}"}}')
    by_lmtp = write_config(
        taught(bench), 'lmtp: {listen: "127.0.0.1:0"}', relay=f'{{next_hop: "lmtp://127.0.0.1:{port}"}}'
    )
    with module("sink", port=port, folder=folder), daemon(by_smtp) as smtp, daemon(by_lmtp) as lmtp:
        yield Site(smtp, lmtp, port, folder)


@contextmanager
def _bare(kind: str, address: str, folder: Path, next_port: int = 0) -> Iterator[Served]:
    """Run a bare server until the end of the block; yields it when it listens."""
    words = [sys.executable, "-m", "tests.benchmarks.speed.bare", kind, address, str(next_port)]
    with served(words, folder / f"bare-{kind}.log", ROOT) as server:
        server.wait_for(lambda: clients.listens(address))
        yield server


def _measure(bench: Bench, way: str, sides: dict[str, Side], requests: Sequence[bytes]) -> None:
    """Record rate and CPU of each side, and its waits at half of the rate of nbstream."""
    seconds = bench.scale.seconds
    rates: dict[str, list[float]] = {who: [] for who in sides}
    costs: dict[str, list[float]] = {who: [] for who in sides}
    for number in range(1 + bench.scale.rounds):
        for who, side in sides.items():
            before = side.cpu_seconds
            lasting = seconds if number else min(1.0, seconds)
            load = uvloop.run(clients.for_seconds(side.connect, requests, CONNECTIONS, lasting))
            if number:  # the first is to warm up
                rates[who].append(load.rate)
                costs[who].append(1000 * (side.cpu_seconds - before) / len(load.waits))
    for who in sides:
        bench.record(way, RATE, *rates[who], who=who)
        bench.record(way, CPU_MILLISECONDS, *costs[who], who=who)
    half = statistics.median(rates[OURS]) / 2
    waits = {
        who: uvloop.run(clients.at_rate(side.connect, requests, half, 1.6 * seconds)).waits
        for who, side in sides.items()
    }
    for name in ("p50", "p99"):
        for who, measured in waits.items():
            milliseconds = 1000 * percentile(measured, PERCENTILES[name])
            bench.record(f"{way}, {name} at half of that rate", MILLISECONDS, milliseconds, who=who)


def _through(
    bench: Bench,
    way: str,
    site: Site,
    ours: Daemon,
    listener: str,
    client: type[clients.Smtp | clients.SmtpProxied],
) -> None:
    """Measure mail that passes through, beside a proxy to the same sink."""
    bare_address = f"127.0.0.1:{free_port()}"
    with _bare("proxy", bare_address, site.folder, site.sink_port) as bare:
        sides = {
            OURS: Side(partial(client.greeted, ours.address(listener)), (ours.server,)),
            BARE: Side(partial(client.greeted, bare_address), (bare,)),
        }
        _measure(bench, way, sides, smtp_requests(bench))


def _after_queue(bench: Bench, way: str, site: Site) -> None:
    _through(bench, way, site, site.smtp, "smtp", clients.Smtp)


def _before_queue(bench: Bench, way: str, site: Site) -> None:
    _through(bench, way, site, site.smtp, "smtp", clients.SmtpProxied)


def _lmtp(bench: Bench, way: str, site: Site) -> None:
    _through(bench, way, site, site.lmtp, "lmtp", clients.Lmtp)


def _milter(bench: Bench, way: str, site: Site) -> None:
    requests = [clients.Milter.request(path.read_bytes()) for _, path in bench.checked]
    bare_address = f"unix:{site.folder}/bare-milter"
    with _bare("milter", bare_address, site.folder) as bare:
        sides = {
            OURS: Side(partial(clients.Milter.negotiated, site.smtp.address("milter")), (site.smtp.server,)),
            BARE: Side(partial(clients.Milter.negotiated, bare_address), (bare,)),
        }
        _measure(bench, way, sides, requests)


def _spamd(bench: Bench, way: str, site: Site) -> None:
    def connect(address: str) -> Connect:
        async def connected() -> clients.Connection:
            return clients.Spamd(address)

        return connected

    requests = [clients.Spamd.request(path.read_bytes(), "HEADERS") for _, path in bench.checked]
    bare_address = f"unix:{site.folder}/bare-spamd"
    with _bare("spamd", bare_address, site.folder) as bare:
        sides = {
            OURS: Side(connect(site.smtp.address("spamd")), (site.smtp.server,)),
            BARE: Side(connect(bare_address), (bare,)),
        }
        _measure(bench, way, sides, requests)


def _pipe(bench: Bench, way: str, site: Site) -> None:
    def connect(*words: str) -> Connect:
        async def connected() -> clients.Connection:
            return clients.Pipe(words)

        return connected

    if not Path("/usr/bin/python3").exists():
        raise CannotMeasure("no /usr/bin/python3")
    socket = site.smtp.address("spamd").removeprefix("unix:")
    sides = {
        OURS: Side(connect(str(FILTER), "--socket", socket), (site.smtp.server,), has_processes=True),
        BARE_PIPE: Side(connect("/usr/bin/python3", "-IS", "-c", _COPY), (), has_processes=True),
    }
    _measure(bench, way, sides, [path.read_bytes() for _, path in bench.checked])


def _feedback(bench: Bench, way: str, site: Site) -> None:
    def connect(address: str) -> Connect:
        async def connected() -> clients.Connection:
            return clients.Script(address)

        return connected

    requests = [clients.Script.request(label, path.read_bytes()) for label, path in bench.checked]
    bare_address = f"unix:{site.folder}/bare-script"
    with _bare("script", bare_address, site.folder) as bare:
        sides = {
            OURS: Side(connect(site.smtp.address("dovecot")), (site.smtp.server,)),
            BARE: Side(connect(bare_address), (bare,)),
        }
        _measure(bench, way, sides, requests)


_MEASURES = dict(zip(WAYS, (_after_queue, _before_queue, _lmtp, _milter, _spamd, _pipe, _feedback), strict=True))
