"""The doors for programs: which are open, and what the daemon asks of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from nbstream.assembly import assembly
from nbstream.config import Address
from nbstream.listeners.http.listener import HttpListener
from nbstream.listeners.sockets import TcpPlace, UnixPlace
from nbstream.listeners.spamd.handler import Params as AnswerParams
from nbstream.listeners.spamd.listener import Params as SpamdParams
from nbstream.listeners.spamd.listener import SpamdListener
from nbstream.listeners.stream.listener import Params as StreamParams
from nbstream.listeners.stream.listener import StreamDoor
from nbstream.metrics.stream import StreamMetrics
from nbstream.store import stream_queue
from nbstream.store.model.keys import Keys

if TYPE_CHECKING:
    import socket

    from nbstream.assembly.assembly import Store
    from nbstream.config import HttpListener as HttpSettings
    from nbstream.config import Settings
    from nbstream.config.listeners import Door as DoorSettings
    from nbstream.config.listeners import SpamdListener as SpamdSettings
    from nbstream.filter import Filter
    from nbstream.listeners.sockets import Place
    from nbstream.metrics.metrics import Metrics


class Door(Protocol):
    """One door. ``spam_filter`` may be replaced at any time: the next request goes by the new one."""

    spam_filter: Filter

    async def drain(self, seconds: float) -> None:
        """Stop accepting, let requests under way finish within ``seconds``, then close what is left."""


class SocketDoor(Door, Protocol):
    """A door that programs connect to."""

    async def start(self, listening: socket.socket) -> None:
        """Serve on this socket."""


def spamd_door(settings: Settings, spam_filter: Filter, metrics: Metrics) -> SocketDoor | None:
    """The door for clients of SpamAssassin's server, where it is open."""
    chosen = settings.listeners.spamd
    return SpamdListener(spam_filter, spamd_params(settings, chosen), metrics) if chosen else None


def adopt(door: Door, settings: Settings) -> None:
    """Have a door go by the live sections of ``settings`` from its next request on."""
    if isinstance(door, HttpListener) and not door.judges:
        return
    door.spam_filter = door.spam_filter.with_params(assembly.filter_params(settings))
    if isinstance(door, SpamdListener) and settings.listeners.spamd:
        door.params = spamd_params(settings, settings.listeners.spamd)


def spamd_params(settings: Settings, chosen: SpamdSettings) -> SpamdParams:
    """The limits of the spamd door, how it marks mail, and who may teach by it."""
    answers = AnswerParams(
        model=settings.model.name,
        limits=assembly.limits(settings),
        allow_from=assembly.feedback_params(settings).allow_from,
        clues=settings.headers.clues,
    )
    return SpamdParams(
        answers=answers,
        max_message_bytes=chosen.max_message_bytes,
        idle_timeout_seconds=chosen.idle_timeout_seconds,
        max_connections=chosen.max_connections,
        max_bytes_in_flight=chosen.max_bytes_in_flight,
    )


def stream_door(settings: Settings, store: Store, spam_filter: Filter, metrics: Metrics) -> StreamDoor | None:
    """The door without a socket, where it is open: its ``run`` is the daemon's to run."""
    chosen = settings.listeners.stream
    if chosen is None:
        return None
    waiting = stream_queue.Queue(
        store.client,
        store.follower,
        Keys(settings.model.name),
        stream_queue.Params(
            claim_seconds=chosen.claim_seconds,
            tries=chosen.tries,
            answers=chosen.answers,
            dead=chosen.dead,
            timeout_seconds=settings.redis.timeout_seconds,
        ),
    )
    params = StreamParams(
        assembly.limits(settings),
        max_message_bytes=chosen.max_message_bytes,
        max_in_flight=chosen.max_in_flight,
        max_bytes_in_flight=chosen.max_bytes_in_flight,
        claim_seconds=chosen.claim_seconds,
    )
    return StreamDoor(waiting, spam_filter, assembly.rules(settings), params, StreamMetrics(metrics))


def place(settings: DoorSettings | HttpSettings) -> Place:
    """Where a door listens."""
    listen = settings.listen
    if isinstance(listen, Address):
        return TcpPlace(listen.host, listen.port)
    return UnixPlace(listen.path, settings.socket_mode, settings.socket_group)
