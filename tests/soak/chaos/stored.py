"""The audit of what is stored and in memory, once nothing fails any more: it asks Redis and the daemons."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from nbstream.daemon.assembly.filter import make_filter
from nbstream.daemon.config import load_settings
from nbstream.filter import Filter
from nbstream.mail.message import Message
from nbstream.store.follower.counts import FollowedCounts
from nbstream.store.model.model import Model
from tests.harness.algebra import (
    NOTHING,
    equals_redis_exactly,
    live_entries,
    prequential_scores,
    prequential_scores_of_entries,
    stored,
    summed,
)
from tests.harness.waiting import until
from tests.soak.chaos.deviations import Deviation
from tests.soak.chaos.mails import mail
from tests.soak.chaos.site import Host, Site
from tests.soak.chaos.streams import DEAD, IN, OUT
from tests.soak.chaos.teaching import Teaching

FOLLOW_SECONDS = 30.0
"""How long a follower may take to catch up after the last fault."""

LEDGER_SECONDS = 365 * 86_400
_PROBES = 60  # messages whose scores are compared


async def recount_deviations(model: Model) -> AsyncIterator[Deviation]:
    """Yield where counts, totals, vocabulary or prequential scores differ from a recount of the ledger."""
    for automatic, name in ((False, "people"), (True, "automatic")):
        if await stored(model, automatic=automatic) != await summed(model, automatic=automatic):
            yield Deviation(f"{name}: the stored counts differ from a recount of the ledger")
    if await prequential_scores(model) != await prequential_scores_of_entries(model):
        yield Deviation("the stored prequential scores differ from those of the ledger")


async def follower_deviations(followed: Mapping[str, FollowedCounts], model: Model) -> AsyncIterator[Deviation]:
    """Yield which follower does not become equal to Redis."""
    for name, counts in followed.items():
        try:
            await until(partial(equals_redis_exactly, counts, model), FOLLOW_SECONDS)
        except TimeoutError:
            yield Deviation(f"the follower {name} differs from Redis")


async def score_deviations(site: Site, numbers: Sequence[int]) -> AsyncIterator[Deviation]:
    """Yield where a daemon scores messages otherwise than the counts in Redis say.

    All workers of a host are asked, as far as chance leads the connections to them.
    """
    probes = numbers[:: max(1, len(numbers) // _PROBES)]
    for host in site.hosts.values():
        differing, reference = list(probes), await _filter_over_redis(site, host)

        try:
            await until(partial(_all_agree, reference, host, differing), FOLLOW_SECONDS)
        except TimeoutError:
            yield Deviation(
                f"host {host.name} scores {len(differing)} of {len(probes)} messages not as Redis says"
            )


async def _filter_over_redis(site: Site, host: Host) -> Filter:
    """Return a filter that reads the counts from Redis for each message."""
    settings = load_settings(host.config)
    model = Model(site.redis, settings.model.name, LEDGER_SECONDS)
    return make_filter(settings, model, model, uses_automatic=True)


async def _all_agree(reference: Filter, host: Host, differing: list[int]) -> bool:
    """Ask about the messages again, and leave in ``differing`` those whose scores differ."""
    differing[:] = [number for number in differing if not await _scores_agree(reference, host, number)]
    return not differing


async def _scores_agree(reference: Filter, host: Host, number: int) -> bool:
    expected = await reference.check(Message.parse(mail(number)))
    status, answer = await host.check(number)
    return status == 200 and abs(answer["score"] - expected.score) < 1e-9


async def stream_deviations(site: Site) -> AsyncIterator[Deviation]:
    """Yield which request has not exactly one answer."""
    answers: Counter[str] = Counter()
    for stream in (OUT, DEAD):
        entries: Any = await site.redis.xrange(stream)
        if stream == DEAD and entries:
            site.journal.note("dead letters", count=len(entries))
        if stream == OUT:
            answers.update(fields[b"entry"].decode() for _, fields in entries)
    for sent in site.journal.requests:
        if sent.entry is None:
            continue
        count = answers[sent.entry]
        if count != 1:
            yield Deviation(f"stream entry {sent.entry} ({sent.id}) has {answers[sent.entry]} answers")
    waiting = await site.redis.xlen(IN)
    if waiting:
        yield Deviation(f"{waiting} stream entries are left without an answer")


async def unlearn_deviations(
    site: Site, teaching: Teaching, model: Model, numbers: Iterable[int]
) -> AsyncIterator[Deviation]:
    """Unlearn everything by a command; then nothing may be left."""
    problem = await teaching.unlearn_all(site.hosts["b"], sorted(numbers))
    if problem:
        yield Deviation(f"not everything could be unlearned at the end: {problem}")
    left = await live_entries(model)
    if left:
        yield Deviation(f"{len(left)} messages are left in the ledger after everything was unlearned")
    if await stored(model) != NOTHING:
        yield Deviation("counts are left after everything was unlearned")
    if any((await prequential_scores(model)).values()):
        yield Deviation("prequential scores are left after everything was unlearned")


def log_deviations(log: Path) -> Iterator[Deviation]:
    """Yield the faults of the program in its log: exceptions, and lines that are no events."""
    for line in log.read_text("utf-8", "replace").splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            if line.startswith("nbstream: "):  # why it does not start; the exit code is checked by itself
                continue
            yield Deviation(f"{log.parent.name}: the log has the line {line!r}")
            continue
        if "exception" in entry:
            yield Deviation(
                f"{log.parent.name}: the log has an exception: {entry['event']}: {entry['exception'][-300:]}"
            )
