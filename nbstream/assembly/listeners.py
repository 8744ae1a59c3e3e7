"""The doors for programs: which are open, and what the daemon asks of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from nbstream.assembly import assembly
from nbstream.config import TcpAddress
from nbstream.listeners.http.listener import HttpListener
from nbstream.listeners.sockets import TcpListenAddress, UnixListenAddress
from nbstream.listeners.spamd.handler import SpamdHandlerOptions
from nbstream.listeners.spamd.listener import SpamdLimits, SpamdListener
from nbstream.listeners.stream.listener import StreamLimits, StreamListener
from nbstream.metrics.stream import StreamMetrics
from nbstream.store import stream_queue
from nbstream.store.model.keys import ModelKeys

if TYPE_CHECKING:
    import socket

    from nbstream.assembly.assembly import RedisClients
    from nbstream.config import HttpListenerSettings, Settings
    from nbstream.config.listeners import SocketListenerSettings, SpamdListenerSettings
    from nbstream.filter import Filter
    from nbstream.listeners.sockets import ListenAddress
    from nbstream.metrics.daemon import DaemonMetrics
    from nbstream.metrics.delivery import DeliveryMetrics


class Listener(Protocol):
    """One door. ``spam_filter`` may be replaced at any time: the next request goes by the new one."""

    spam_filter: Filter

    async def drain(self, seconds: float) -> None:
        """Stop accepting, let requests under way finish within ``seconds``, then close what is left."""


class SocketListener(Listener, Protocol):
    """A door that programs connect to."""

    async def start(self, listening: socket.socket) -> None:
        """Serve on this socket."""


def make_spamd_listener(
    settings: Settings, spam_filter: Filter, metrics: DeliveryMetrics
) -> SocketListener | None:
    """The door for clients of SpamAssassin's server, where it is open."""
    chosen = settings.listeners.spamd
    return SpamdListener(spam_filter, spamd_limits(settings, chosen), metrics) if chosen else None


def apply_settings(door: Listener, settings: Settings) -> None:
    """Have a door go by the live sections of ``settings`` from its next request on."""
    if isinstance(door, HttpListener) and not door.checks_messages:
        return
    door.spam_filter = door.spam_filter.with_policy(assembly.make_filter_policy(settings))
    if isinstance(door, SpamdListener) and settings.listeners.spamd:
        door.limits = spamd_limits(settings, settings.listeners.spamd)


def spamd_limits(settings: Settings, chosen: SpamdListenerSettings) -> SpamdLimits:
    """The limits of the spamd door, how it marks mail, and who may teach by it."""
    answers = SpamdHandlerOptions(
        model=settings.model.name,
        limits=assembly.mime_limits(settings),
        allow_from=assembly.feedback_options(settings).allow_from,
        clues=settings.headers.clues,
    )
    return SpamdLimits(
        handler_options=answers,
        max_message_bytes=chosen.max_message_bytes,
        idle_timeout_seconds=chosen.idle_timeout_seconds,
        max_connections=chosen.max_connections,
        max_bytes_in_flight=chosen.max_bytes_in_flight,
    )


def make_stream_listener(
    settings: Settings, store: RedisClients, spam_filter: Filter, metrics: DaemonMetrics
) -> StreamListener | None:
    """The door without a socket, where it is open: its ``run`` is the daemon's to run."""
    chosen = settings.listeners.stream
    if chosen is None:
        return None
    waiting = stream_queue.StreamQueue(
        store.client,
        store.blocking_client,
        ModelKeys(settings.model.name),
        stream_queue.StreamQueueOptions(
            claim_seconds=chosen.claim_seconds,
            tries=chosen.tries,
            max_answers=chosen.answers,
            max_dead_letters=chosen.dead,
            timeout_seconds=settings.redis.timeout_seconds,
        ),
    )
    params = StreamLimits(
        assembly.mime_limits(settings),
        max_message_bytes=chosen.max_message_bytes,
        max_in_flight=chosen.max_in_flight,
        max_bytes_in_flight=chosen.max_bytes_in_flight,
        claim_seconds=chosen.claim_seconds,
    )
    return StreamListener(
        waiting,
        spam_filter,
        assembly.make_rules(settings),
        params,
        StreamMetrics(metrics.registry, metrics.delivery),
    )


def listen_address(settings: SocketListenerSettings | HttpListenerSettings) -> ListenAddress:
    """Where a door listens."""
    listen = settings.listen
    if isinstance(listen, TcpAddress):
        return TcpListenAddress(listen.host, listen.port)
    return UnixListenAddress(listen.path, settings.socket_mode, settings.socket_group)
