"""The audit: compares what was acknowledged with what was delivered, what is stored, and what is in memory.

Rules: each broken rule is a deviation. First comes what only the running daemons know. Then they are restarted, so
that what was to be carried out late is done. At the end everything is unlearned.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from functools import partial
from itertools import chain

from nbstream.listeners.stream.queue import CLAIM_SECONDS
from nbstream.store.follower.counts import FollowedCounts
from nbstream.store.model.model import Model
from tests.harness.algebra import live_entries
from tests.harness.waiting import until
from tests.soak.chaos import stored
from tests.soak.chaos.deliveries import (
    mail_deviations,
    maildir_receptions,
    quarantine_receptions,
    senders_in_doubt,
    without_doubtful,
)
from tests.soak.chaos.deviations import Deviation
from tests.soak.chaos.lessons import chain_deviations, lesson_deviations, records_by_message
from tests.soak.chaos.next_hop import Reception
from tests.soak.chaos.redis_service import READY_SECONDS
from tests.soak.chaos.site import Site
from tests.soak.chaos.stored import FOLLOW_SECONDS, LEDGER_SECONDS
from tests.soak.chaos.streams import IN
from tests.soak.chaos.teachers import Teachers

MODEL = "default"
_STREAM_SECONDS = CLAIM_SECONDS * 3  # for the entries whose workers have died to be claimed and answered


async def audit(
    site: Site,
    teachers: Teachers,
    followed: dict[str, FollowedCounts],
) -> AsyncIterator[Deviation]:
    """Yield all that is wrong, now that nothing fails any more."""
    model = Model(site.redis, MODEL, LEDGER_SECONDS)
    async for deviation in _recovery_deviations(site, teachers):
        yield deviation
    async for deviation in _memory_deviations(site, model, teachers, followed):
        yield deviation
    await _wait_for_streams(site)
    await _restart_all(site)  # what was carried out late is carried out now
    for deviation in mail_deviations(site.journal.mail, _receptions(site), site.journal.faults):
        yield deviation
    async for deviation in _lesson_deviations(site, model, teachers):
        yield deviation
    async for deviation in _model_deviations(site, model, teachers):
        yield deviation
    async for deviation in stored.follower_deviations(followed, model):
        yield deviation
    async for deviation in _end_deviations(site):
        yield deviation


async def _recovery_deviations(site: Site, teachers: Teachers) -> AsyncIterator[Deviation]:
    for host in site.hosts.values():
        try:
            await until(partial(teachers.can_teach, host), FOLLOW_SECONDS)
        except TimeoutError:
            yield Deviation(f"host {host.name} still refuses lessons {FOLLOW_SECONDS:.0f} s after the last fault")


async def _memory_deviations(
    site: Site, model: Model, teachers: Teachers, followed: dict[str, FollowedCounts]
) -> AsyncIterator[Deviation]:
    async for deviation in stored.follower_deviations(followed, model):
        yield deviation
    async for deviation in stored.score_deviations(site, sorted(teachers.numbers)):
        yield deviation


async def _lesson_deviations(site: Site, model: Model, teachers: Teachers) -> AsyncIterator[Deviation]:
    """Yield what is wrong with history and ledger."""
    records = await records_by_message(model)
    versions = {key: entry.version for key, entry in (await live_entries(model)).items()}
    for deviation in chain_deviations(records, versions):
        yield deviation
    for deviation in lesson_deviations(site.journal, records, teachers.crowd_keys):
        yield deviation


async def _model_deviations(site: Site, model: Model, teachers: Teachers) -> AsyncIterator[Deviation]:
    async for deviation in stored.recount_deviations(model):
        yield deviation
    async for deviation in stored.stream_deviations(site):
        yield deviation
    async for deviation in stored.unlearn_deviations(site, teachers.teaching, model, teachers.numbers):
        yield deviation


async def _end_deviations(site: Site) -> AsyncIterator[Deviation]:
    """End the daemons, and yield what their logs and ends say."""
    for host in site.hosts.values():
        await host.daemon.end()
        for deviation in stored.log_deviations(host.daemon.log):
            yield deviation
    for at, text in site.journal.problems:
        yield Deviation(text, at)


async def _wait_for_streams(site: Site) -> None:
    """Give the daemons time to answer what is left in the stream; the audit says what still is."""

    async def is_empty() -> bool:
        return not await site.redis.xlen(IN)

    with suppress(TimeoutError):
        await until(is_empty, _STREAM_SECONDS)


async def _restart_all(site: Site) -> None:
    for host in site.hosts.values():
        await host.daemon.end()
        host.daemon.go_on()
    async with asyncio.timeout(2 * READY_SECONDS):
        await site.wait_until_ready()


def _receptions(site: Site) -> list[Reception]:
    delivered = [*site.next_hop.receptions, *maildir_receptions(site.maildir)]
    folders = [host.quarantine for host in site.hosts.values()]
    doubtful = chain.from_iterable(map(senders_in_doubt, folders))
    return [*without_doubtful(delivered, doubtful), *chain.from_iterable(map(quarantine_receptions, folders))]
