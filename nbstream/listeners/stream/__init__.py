"""The stream listener: requests come from a Redis stream, and results go to another one.

Here are its settings, what ``nbstream doctor`` sees of it in Redis, and its entry in the table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nbstream.findings import ok, problem, warning
from nbstream.server.listener import Listener, ListenerContext, ListenerEntry
from nbstream.settings.values import Section

if TYPE_CHECKING:
    from collections.abc import Sequence

    from redis.asyncio import Redis

    from nbstream.findings import Finding
    from nbstream.store.model.keys import ModelKeys


STREAM_MISSING = problem(
    "listener.stream",
    "The stream {key} has no consumer group {group}: nothing reads it.",
    "The daemon's log says why the stream listener is not running.",
)
DEAD_LETTERS = warning(
    "listener.stream",
    "Stream entries were set aside in {key} ({count}).",
    "Inspect them (XRANGE {key} - +), fix the cause, and add them to the stream again.",
)
STREAM_READ = ok("listener.stream", "The stream {key} is being read; {pending} entries are pending.")


class StreamListenerSettings(Section):
    """The listener for programs that use Redis. It has no address. A message has at most 10 MiB."""


async def examine_stream(client: Redis, keys: ModelKeys) -> Sequence[Finding]:
    """See whether the stream of programs is read, and whether entries were given up.

    Raises ``StoreUnavailable``.
    """
    from nbstream.listeners.stream.queue import CONSUMER_GROUP  # noqa: PLC0415 - as above
    from nbstream.store.redis_errors import store_errors  # noqa: PLC0415 - see nbstream.server.listener

    with store_errors():
        exists = await client.exists(keys.incoming)
        groups: Any = await client.xinfo_groups(keys.incoming) if exists else []
        dead: Any = await client.xlen(keys.dead_letters)
    group = next((group for group in groups if group["name"] == CONSUMER_GROUP.encode()), None)
    if group is None:
        return [STREAM_MISSING(key=keys.incoming, group=CONSUMER_GROUP)]
    findings = [STREAM_READ(key=keys.incoming, pending=group["pending"])]
    if dead:
        findings.append(DEAD_LETTERS(count=dead, key=keys.dead_letters))
    return findings


def _make(_: StreamListenerSettings, context: ListenerContext) -> Listener:
    from nbstream.listeners.stream.listener import StreamListener, StreamMetrics  # noqa: PLC0415 - as above
    from nbstream.listeners.stream.queue import StreamQueue  # noqa: PLC0415 - as above

    clients = context.client, context.blocking_client
    queue = StreamQueue(*clients, context.keys, context.redis_timeout_seconds)
    return StreamListener(queue, context.message_service, context.background, StreamMetrics(context.registry))


STREAM = ListenerEntry("stream", _make, examine=examine_stream, counts_connections=False, teaches_by_address=False)
