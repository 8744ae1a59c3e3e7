"""One chaos run: start everything, attack it while it works, let it recover, and count it again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from nbstream.store.follower.counts import FollowedCounts
from nbstream.store.follower.follower import Follower
from nbstream.store.model.model import Model
from tests.soak.chaos.audit import MODEL, audit
from tests.soak.chaos.deviations import Deviation
from tests.soak.chaos.disks import small_disk
from tests.soak.chaos.faults import Faults
from tests.soak.chaos.host_faults import HopFaults, HostFaults
from tests.soak.chaos.journal import Journal
from tests.soak.chaos.redis_faults import LinkFaults, RedisFaults
from tests.soak.chaos.redis_service import running_redis
from tests.soak.chaos.schedule import DISK_KINDS, Event, Kind, plan
from tests.soak.chaos.senders import Senders
from tests.soak.chaos.site import Site, running_site
from tests.soak.chaos.stored import LEDGER_SECONDS
from tests.soak.chaos.streams import StreamClient
from tests.soak.chaos.teachers import Teachers

_REDIS_DISK_MEGABYTES = 192
_MAIL_DISK_MEGABYTES = 64
_SENDERS = 3
_TEACHERS = 3
_MOST_LATENESS = 1.5  # times the time of the events: later none begins
_RECOVERY_SECONDS = 480.0  # for the start, the end and the audit, on a slow machine


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What to run.

    ``seconds`` is the time of the events, ``folder`` gets everything, and its path is short (unix sockets).
    """

    seed: int
    seconds: float
    events: int
    folder: Path
    redis_binary: Path


@dataclass(frozen=True, slots=True)
class RunResult:
    """The journal of a run, and what was wrong."""

    journal: Journal
    deviations: Sequence[Deviation]


async def run_chaos(options: RunOptions) -> RunResult:
    """Carry out one run and its audit."""
    journal, deviations = Journal(options.folder / "events.jsonl"), list[Deviation]()
    seconds = _MOST_LATENESS * options.seconds + _RECOVERY_SECONDS
    try:
        async with asyncio.timeout(seconds):
            deviations += [deviation async for deviation in _run(options, journal)]
    except TimeoutError:
        deviations.append(Deviation(f"the run did not end within {seconds:.0f} s", journal.now()))
    finally:
        journal.close()
    return RunResult(journal, deviations)


async def _run(options: RunOptions, journal: Journal) -> AsyncIterator[Deviation]:
    """Start everything, attack it, and yield what is wrong."""
    folder = options.folder
    redis_disk, mail_disk = folder / "redis", folder / "mail"
    with (
        small_disk(redis_disk, _REDIS_DISK_MEGABYTES) as has_redis_disk,
        small_disk(mail_disk, _MAIL_DISK_MEGABYTES) as has_mail_disk,
    ):
        kinds = set(Kind) - (set() if has_redis_disk and has_mail_disk else DISK_KINDS)
        events = plan(options.seed, options.seconds, options.events, kinds)
        _write_schedule(folder / "schedule.json", options, events)
        async with (
            running_redis(options.redis_binary, redis_disk, folder, journal) as redis,
            running_site(folder, mail_disk, redis, journal) as site,
        ):
            of_redis = {**RedisFaults(redis).actions, **LinkFaults(redis).actions}
            actions = {**of_redis, **HostFaults(site).actions, **HopFaults(site).actions}
            faults = Faults(actions, journal, _MOST_LATENESS * options.seconds)
            async for deviation in _attack(site, options, faults.run(events)):
                yield deviation


def _write_schedule(file: Path, options: RunOptions, events: Sequence[Event]) -> None:
    lines = [json.dumps(asdict(event)) for event in events]
    file.write_text(
        json.dumps({"seed": options.seed, "seconds": options.seconds}) + "\n" + "\n".join(lines) + "\n"
    )


async def _attack(
    site: Site, options: RunOptions, attacking: Coroutine[Any, Any, None]
) -> AsyncIterator[Deviation]:
    """Let the site work while it is attacked, and yield what is wrong then."""
    finishing = asyncio.Event()
    stream, senders = StreamClient(site), Senders(site, options.seed, _SENDERS)
    teachers = Teachers(site, stream, finishing, options.seed)
    async with _followed_counts(site) as followed:
        async with AsyncExitStack() as stack:
            reading = asyncio.create_task(stream.read_answers())
            stack.callback(reading.cancel)
            site.journal.start_clock()
            async with asyncio.TaskGroup() as group:
                group.create_task(senders.run())
                group.create_task(teachers.run(_TEACHERS))
                group.create_task(stream.check_until(finishing, options.seed))
                await attacking
                site.journal.note("the last fault has ended")
                await site.wait_until_ready()
                finishing.set()
                senders.finish()
        site.journal.note("audit")
        async for deviation in audit(site, teachers, followed):
            yield deviation


@asynccontextmanager
async def _followed_counts(site: Site) -> AsyncIterator[dict[str, FollowedCounts]]:
    """Follow the model in this process, over the connections of each host."""
    async with AsyncExitStack() as stack:
        followed = {}
        for name in site.hosts:
            client = site.server.client(name)
            stack.push_async_callback(client.aclose)
            followed[name] = FollowedCounts(Model(client, MODEL, LEDGER_SECONDS))
            following = asyncio.create_task(Follower(client, [followed[name]]).run())
            stack.callback(following.cancel)
        yield followed
