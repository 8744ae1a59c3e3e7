"""The stream listener: requests come from a Redis stream, and results go to another one.

Here are its settings and its entry in the table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from nbstream.server.listener import Listener, ListenerContext, ListenerEntry
from nbstream.settings.values import Section

if TYPE_CHECKING:
    from collections.abc import Sequence

    from redis.asyncio import Redis

    from nbstream.findings import Finding
    from nbstream.store.model.keys import ModelKeys


class StreamListenerSettings(Section):
    """The listener for programs that use Redis. It has no address. A message has at most 10 MiB."""

    claim_seconds: Annotated[float, Field(ge=1, le=86400, allow_inf_nan=False)] = 60
    """Another worker takes over the entries of a worker that was silent for this long."""


async def _examine(client: Redis, keys: ModelKeys) -> Sequence[Finding]:
    from nbstream.listeners.stream.probe import examine_stream  # noqa: PLC0415 - see nbstream.server.listener

    return await examine_stream(client, keys)


def _make(section: StreamListenerSettings, context: ListenerContext) -> Listener:
    from nbstream.listeners.stream.listener import StreamListener  # noqa: PLC0415 - as above
    from nbstream.listeners.stream.metrics import StreamMetrics  # noqa: PLC0415 - as above
    from nbstream.store.stream_queue import StreamQueue, StreamQueueOptions  # noqa: PLC0415 - as above

    queue = StreamQueue(
        context.client,
        context.blocking_client,
        context.keys,
        StreamQueueOptions(claim_seconds=section.claim_seconds, timeout_seconds=context.redis_timeout_seconds),
    )
    return StreamListener(
        queue,
        section.claim_seconds,
        context.bytes_in_flight,
        context.message_service,
        context.background,
        StreamMetrics(context.registry),
    )


STREAM = ListenerEntry("stream", _make, examine=_examine, counts_connections=False, teaches_by_address=False)
