"""What ``nbstream doctor`` sees of the stream listener, which has no socket: it asks Redis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from nbstream.findings import ok, problem, warning
from nbstream.store.redis_errors import store_errors
from nbstream.store.stream_queue import CONSUMER_GROUP

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from nbstream.findings import Finding
    from nbstream.store.model.keys import ModelKeys

STREAM_MISSING = problem(
    "listener.stream",
    "The stream {key} has no consumer group {group}: nobody reads it.",
    "See in the log of the daemon why the stream listener does not run.",
)
DEAD_LETTERS = warning(
    "listener.stream",
    "{count} entries of the stream were given up and lie in {key}.",
    "Look at them (XRANGE {key} - +), mend what was wrong, and add them to the stream again.",
)
STREAM = ok("listener.stream", "The stream {key} is read; {pending} entries are in hand.")


async def examine_stream(client: Redis, keys: ModelKeys) -> Sequence[Finding]:
    """See whether the stream of programs is read, and whether entries were given up.

    Raises ``StoreUnavailable``.
    """
    with store_errors():
        exists = await client.exists(keys.incoming)
        groups: Any = await client.xinfo_groups(keys.incoming) if exists else []
        dead: Any = await client.xlen(keys.dead_letters)
    group = next((group for group in groups if group["name"] == CONSUMER_GROUP.encode()), None)
    if group is None:
        return [STREAM_MISSING(key=keys.incoming, group=CONSUMER_GROUP)]
    findings = [STREAM(key=keys.incoming, pending=group["pending"])]
    if dead:
        findings.append(DEAD_LETTERS(count=dead, key=keys.dead_letters))
    return findings
