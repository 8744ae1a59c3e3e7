"""One chaos run: start everything, attack it while it works, let it recover, and count it again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence, Set
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from nbstream.store.connection import ConnectionOptions, open_client
from nbstream.store.model.model import Model
from nbstream.store.replica.mirror import Mirror
from tests.soak.chaos.audit import MODEL, audit
from tests.soak.chaos.deviations import Deviation
from tests.soak.chaos.faults import Faults
from tests.soak.chaos.journal import Journal
from tests.soak.chaos.schedule import DISK_KINDS, Event, Kind, plan
from tests.soak.chaos.senders import Senders
from tests.soak.chaos.site import Site, running_site
from tests.soak.chaos.stored import LEDGER_SECONDS
from tests.soak.chaos.streams import StreamClient
from tests.soak.chaos.teachers import Teachers

_SENDERS = 3
_TEACHERS = 3
_RECOVERY_SECONDS = 360.0  # for the start, the end and the audit, on a slow machine


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What to run.

    ``seconds`` is the time of the events, ``folder`` gets everything, and its path is short (unix sockets). Of
    ``redis_names`` the first is the primary, the others are its replicas.
    """

    seed: int
    seconds: float
    events: int
    folder: Path
    redis_binary: Path
    redis_names: Sequence[str]
    kinds: Set[Kind]


@dataclass(frozen=True, slots=True)
class RunResult:
    """The journal of a run, and what was wrong."""

    journal: Journal
    deviations: Sequence[Deviation]


async def run_chaos(options: RunOptions) -> RunResult:
    """Carry out one run and its audit."""
    journal = Journal(options.folder / "events.jsonl")
    try:
        async with (
            asyncio.timeout(3 * options.seconds + _RECOVERY_SECONDS),
            running_site(options.folder, options.redis_binary, options.redis_names, journal) as site,
        ):
            kinds = options.kinds if site.has_disks else options.kinds - DISK_KINDS
            events = plan(options.seed, options.seconds, options.events, kinds)
            _write_schedule(options.folder / "schedule.json", options, events)
            return RunResult(journal, [deviation async for deviation in _attack(site, options, events)])
    finally:
        journal.close()


def _write_schedule(file: Path, options: RunOptions, events: Sequence[Event]) -> None:
    lines = [json.dumps(asdict(event)) for event in events]
    file.write_text(
        json.dumps({"seed": options.seed, "seconds": options.seconds}) + "\n" + "\n".join(lines) + "\n"
    )


async def _attack(site: Site, options: RunOptions, events: Sequence[Event]) -> AsyncIterator[Deviation]:
    """Attack the site while it works, and yield what is wrong then."""
    finishing = asyncio.Event()
    stream, senders = StreamClient(site), Senders(site, options.seed, _SENDERS)
    teachers = Teachers(site, stream, finishing, options.seed)
    async with _mirrors(site) as mirrors:
        async with AsyncExitStack() as stack:
            reading = asyncio.create_task(stream.read_answers())
            stack.callback(reading.cancel)
            site.journal.start_clock()
            async with asyncio.TaskGroup() as group:
                group.create_task(senders.run())
                group.create_task(teachers.run(_TEACHERS))
                group.create_task(stream.check_until(finishing, options.seed))
                await Faults(site).run(events)
                site.journal.note("the last fault has ended")
                await site.wait_until_ready()
                finishing.set()
                senders.finish()
        site.journal.note("audit")
        async for deviation in audit(site, teachers, mirrors):
            yield deviation


@asynccontextmanager
async def _mirrors(site: Site) -> AsyncIterator[dict[str, Mirror]]:
    """Follow the model in this process, over the connections of each host."""
    async with AsyncExitStack() as stack:
        mirrors = {}
        for name, host in site.hosts.items():
            client = open_client(ConnectionOptions(host.link.url, timeout_seconds=2.0), retries=0)
            stack.push_async_callback(client.aclose)
            mirrors[name] = Mirror(Model(client, MODEL, LEDGER_SECONDS), 2.0)
            following = asyncio.create_task(mirrors[name].run())
            stack.callback(following.cancel)
        yield mirrors
