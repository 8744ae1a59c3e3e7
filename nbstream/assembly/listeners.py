"""The table of listeners: what the rest of the daemon knows about a protocol.

Sockets, start, reload, drain and the rule who may teach all go through this table. A protocol is a package in
``listeners``, its name in ``listeners.names``, one entry here and one section of the configuration. The table does
not say two things: the supervisor makes the listener for metrics itself, because it renders the metrics of all
workers (``daemon.supervisor``); and ``nbstream serve`` names the SMTP listener in its hints for a newcomer.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from nbstream.assembly.http import make_http_listener, make_metrics_listener
from nbstream.config import TcpAddress
from nbstream.errors import ConfigError
from nbstream.listeners import names
from nbstream.listeners.bytes_in_flight import BytesInFlight
from nbstream.listeners.dovecot.listener import DovecotLimits, DovecotListener
from nbstream.listeners.message_service import MessageService
from nbstream.listeners.sockets import TcpListenAddress, UnixListenAddress
from nbstream.listeners.spamd.listener import SpamdLimits, SpamdListener
from nbstream.listeners.stream.listener import StreamLimits, StreamListener
from nbstream.listeners.teachers import Teachers
from nbstream.metrics.spool import SpoolMetrics
from nbstream.metrics.stream import StreamMetrics
from nbstream.spool.message_spool import MessageSpool
from nbstream.spool.segments import FOLDER as SPOOL_FOLDER
from nbstream.store import stream_queue
from nbstream.store.model.keys import ModelKeys
from nbstream.system_users import user_number

if TYPE_CHECKING:
    from nbstream.assembly.parts import ServerParts
    from nbstream.config import HttpListenerSettings, Settings
    from nbstream.config.listeners import (
        DovecotListenerSettings,
        ListenersSettings,
        MailListenerSettings,
        MetricsListenerSettings,
        MilterListenerSettings,
        SocketListenerSettings,
        SpamdListenerSettings,
        StreamListenerSettings,
    )
    from nbstream.listeners.listener import Listener
    from nbstream.listeners.runtime import Runtime
    from nbstream.listeners.sockets import ListenAddress

Section = TypeVar("Section")


@dataclass(frozen=True, slots=True)
class ListenerContext:
    """What a listener is made of besides its section: the settings at the start, parts, and its bytes in flight.

    ``listener_name`` is the name of its entry. ``is_draining`` tells whether the process takes no more mail.
    """

    listener_name: str
    settings: Settings
    parts: ServerParts
    runtime: Runtime
    bytes_in_flight: BytesInFlight
    is_draining: Callable[[], bool]

    def message_service(self) -> MessageService:
        """Return a message service for the listener."""
        return MessageService(self.listener_name, self.runtime, self.parts.metrics.delivery)


@dataclass(frozen=True, slots=True)
class ListenerEntry(Generic[Section]):
    """One listener.

    ``name`` is that of its section under ``listeners``, and its name in logs, metrics and the history. ``section``
    gets the section, which is None where the listener is off; ``make`` makes the listener of it, ``address`` says
    where it listens (None: it has no socket), and ``byte_limit`` how many bytes of messages it may have in memory.
    ``teachers`` are those who may teach through it.

    ``binds_all_addresses``: of a host name with several addresses all are used. ``is_of_workers``: where there are
    several processes, each worker has one, else the supervisor. ``drains_last``: it is drained after the others,
    because monitoring asks it for health or metrics until the end. ``counts_connections``: its clients are counted
    in the metrics.
    """

    name: str
    section: Callable[[ListenersSettings], Section | None]
    make: Callable[[Section, ListenerContext], Listener]
    address: Callable[[Section], ListenAddress] | None
    byte_limit: Callable[[Section], int]
    teachers: Callable[[Settings], Teachers]
    binds_all_addresses: bool = False
    is_of_workers: bool = True
    drains_last: bool = False
    counts_connections: bool = True

    def is_on(self, settings: Settings) -> bool:
        """Return whether the settings have this listener."""
        return self.section(settings.listeners) is not None

    def listen_address(self, settings: Settings) -> ListenAddress | None:
        """Return where it listens; None where it is off or has no socket."""
        section = self.section(settings.listeners)
        return None if section is None or self.address is None else self.address(section)

    def make_listener(
        self, settings: Settings, parts: ServerParts, runtime: Runtime, is_draining: Callable[[], bool]
    ) -> Listener:
        """Return the listener, which is on; it is not started yet."""
        section = self.section(settings.listeners)
        assert section is not None
        bytes_in_flight = BytesInFlight(self.byte_limit(section))
        return self.make(
            section, ListenerContext(self.name, settings, parts, runtime, bytes_in_flight, is_draining)
        )


def _tcp_address(section: MetricsListenerSettings) -> ListenAddress:
    return TcpListenAddress(section.listen.host, section.listen.port)


def _socket_address(section: SocketListenerSettings | HttpListenerSettings) -> ListenAddress:
    if isinstance(section.listen, TcpAddress):
        return TcpListenAddress(section.listen.host, section.listen.port)
    return UnixListenAddress(section.listen.path, section.socket_mode, section.socket_group)


def _unix_address(section: DovecotListenerSettings) -> ListenAddress:
    return UnixListenAddress(section.listen.path, section.socket_mode, section.socket_group)


def _peers_that_may_teach(settings: Settings) -> Teachers:
    return Teachers(settings.feedback.allow_from, settings.feedback.check_forwarded)


def _nobody_by_address(_: Settings) -> Teachers:
    """Return teachers without a network, for a listener whose messages come from no address, or that takes none.

    What has no address was let in by permissions; a peer with an address may not teach.
    """
    return Teachers()


def _make_mail(section: MailListenerSettings, context: ListenerContext) -> Listener:
    """Return the SMTP listener, or the LMTP listener."""
    # Imported here: where the listener is off, and in all commands, aiosmtpd is not loaded.
    from nbstream.listeners.smtp.listener import SmtpListener  # noqa: PLC0415 - see above
    from nbstream.listeners.smtp.listener_state import SmtpLimits, SmtpOptions, TlsMode  # noqa: PLC0415 - see above
    from nbstream.relay.outlet import Outlet  # noqa: PLC0415 - see above

    parts = context.parts
    limits = SmtpLimits(
        hostname=section.hostname or socket.getfqdn(),
        max_message_bytes=section.max_message_bytes,
        idle_timeout_seconds=section.idle_timeout_seconds,
        message_timeout_seconds=section.message_timeout_seconds,
        max_connections=section.max_connections,
        max_recipients=section.max_recipients,
    )
    outlet = Outlet(parts.next_hop, parts.quarantine)
    options = SmtpOptions(
        context.listener_name,
        section.trusted_proxies,
        TlsMode(section.tls),
        is_lmtp=context.listener_name == names.LMTP,
    )
    return SmtpListener(limits, options, context.bytes_in_flight, outlet, context.runtime, parts.metrics)


def _make_http(section: HttpListenerSettings, context: ListenerContext) -> Listener:
    return make_http_listener(
        section,
        context.settings,
        context.parts,
        context.message_service(),
        context.bytes_in_flight,
        context.is_draining,
    )


def _make_spamd(section: SpamdListenerSettings, context: ListenerContext) -> Listener:
    limits = SpamdLimits(
        max_message_bytes=section.max_message_bytes,
        idle_timeout_seconds=section.idle_timeout_seconds,
        request_timeout_seconds=section.request_timeout_seconds,
        max_connections=section.max_connections,
    )
    return SpamdListener(limits, context.bytes_in_flight, context.message_service())


def _make_milter(section: MilterListenerSettings, context: ListenerContext) -> Listener:
    from nbstream.listeners.milter.listener import MilterListener  # noqa: PLC0415 - as for SMTP
    from nbstream.listeners.milter.listener_state import MilterLimits  # noqa: PLC0415 - as for SMTP

    limits = MilterLimits(
        max_message_bytes=section.max_message_bytes,
        idle_timeout_seconds=section.idle_timeout_seconds,
        message_timeout_seconds=section.message_timeout_seconds,
        max_connections=section.max_connections,
    )
    return MilterListener(limits, context.bytes_in_flight, context.runtime, context.parts.metrics)


def _make_stream(section: StreamListenerSettings, context: ListenerContext) -> Listener:
    settings, clients = context.settings, context.parts.clients
    queue = stream_queue.StreamQueue(
        clients.client,
        clients.blocking_client,
        ModelKeys(settings.model.name),
        stream_queue.StreamQueueOptions(
            claim_seconds=section.claim_seconds,
            tries=section.tries,
            max_answers=section.answers,
            max_dead_letters=section.dead,
            timeout_seconds=settings.redis.timeout_seconds,
        ),
    )
    limits = StreamLimits(
        max_message_bytes=section.max_message_bytes,
        max_in_flight=section.max_in_flight,
        claim_seconds=section.claim_seconds,
    )
    observer = StreamMetrics(context.parts.metrics.registry)
    return StreamListener(queue, limits, context.bytes_in_flight, context.message_service(), observer)


def _make_dovecot(section: DovecotListenerSettings, context: ListenerContext) -> Listener:
    limits = DovecotLimits(
        max_message_bytes=section.max_message_bytes,
        idle_timeout_seconds=section.idle_timeout_seconds,
        request_timeout_seconds=section.request_timeout_seconds,
        max_connections=section.max_connections,
    )
    trusted_users = frozenset((0, os.getuid(), *map(_user_number, section.trusted_users)))
    spool = MessageSpool(context.settings.state_dir / SPOOL_FOLDER, section.spool_max_bytes)
    observer = SpoolMetrics(context.parts.metrics.registry)
    return DovecotListener(
        limits, trusted_users, spool, context.bytes_in_flight, context.message_service(), observer
    )


def _user_number(name: str) -> int:
    try:
        return user_number(name)
    except LookupError as error:
        raise ConfigError(f"listeners.dovecot.trusted_users: there is no user {name}") from error


def _make_metrics(_: MetricsListenerSettings, context: ListenerContext) -> Listener:
    return make_metrics_listener(context.parts.metrics.registry.render_for_listener)


LISTENERS: tuple[ListenerEntry[Any], ...] = (
    ListenerEntry(
        names.SMTP,
        section=lambda listeners: listeners.smtp,
        make=_make_mail,
        address=_socket_address,
        byte_limit=lambda section: section.max_bytes_in_flight,
        teachers=_peers_that_may_teach,
        binds_all_addresses=True,
    ),
    ListenerEntry(
        names.LMTP,
        section=lambda listeners: listeners.lmtp,
        make=_make_mail,
        address=_socket_address,
        byte_limit=lambda section: section.max_bytes_in_flight,
        teachers=_peers_that_may_teach,
        binds_all_addresses=True,
    ),
    ListenerEntry(
        names.HTTP,
        section=lambda listeners: listeners.http,
        make=_make_http,
        address=_socket_address,
        byte_limit=lambda section: section.max_bytes_in_flight,
        teachers=_peers_that_may_teach,
        drains_last=True,
    ),
    ListenerEntry(
        names.SPAMD,
        section=lambda listeners: listeners.spamd,
        make=_make_spamd,
        address=_socket_address,
        byte_limit=lambda section: section.max_bytes_in_flight,
        teachers=_peers_that_may_teach,
    ),
    ListenerEntry(
        names.MILTER,
        section=lambda listeners: listeners.milter,
        make=_make_milter,
        address=_socket_address,
        byte_limit=lambda section: section.max_bytes_in_flight,
        teachers=_peers_that_may_teach,
    ),
    ListenerEntry(
        names.STREAM,
        section=lambda listeners: listeners.stream,
        make=_make_stream,
        address=None,
        counts_connections=False,
        byte_limit=lambda section: section.max_bytes_in_flight,
        teachers=_nobody_by_address,
    ),
    ListenerEntry(
        names.DOVECOT,
        section=lambda listeners: listeners.dovecot,
        make=_make_dovecot,
        address=_unix_address,
        byte_limit=lambda section: section.max_bytes_in_flight,
        teachers=_nobody_by_address,
    ),
    ListenerEntry(
        names.METRICS,
        section=lambda listeners: listeners.metrics,
        make=_make_metrics,
        address=_tcp_address,
        byte_limit=lambda _: 0,  # it takes no messages
        teachers=_nobody_by_address,
        is_of_workers=False,
        counts_connections=False,
        drains_last=True,
    ),
)
"""All listeners, in the order in which they are opened."""
