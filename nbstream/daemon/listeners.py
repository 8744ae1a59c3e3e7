"""The table of listeners: what the rest of the daemon knows about a protocol.

Sockets, start, reload, drain and the rule who may teach all go through this table. A protocol is a package in
``listeners`` with its section of the settings, which ``config.listeners`` names, and one entry here. The table
does not say two things: the supervisor makes the listener for metrics itself, because it renders the metrics of
all workers (``daemon.supervisor``); and ``nbstream serve`` names the SMTP listener in its hints for a newcomer.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from nbstream.daemon.http import make_http_listener, make_metrics_listener
from nbstream.errors import ConfigError
from nbstream.listeners.dovecot.listener import DovecotListener
from nbstream.listeners.dovecot.metrics import SpoolMetrics
from nbstream.listeners.spamd.listener import SpamdListener
from nbstream.listeners.stream.listener import StreamLimits, StreamListener
from nbstream.listeners.stream.metrics import StreamMetrics
from nbstream.server import names
from nbstream.server.limits import BytesInFlight, ListenerLimits
from nbstream.server.message_service import MessageService
from nbstream.server.peers import Teachers
from nbstream.spool.message_spool import MessageSpool
from nbstream.spool.segments import FOLDER as SPOOL_FOLDER
from nbstream.store import stream_queue
from nbstream.store.model.keys import ModelKeys
from nbstream.system_users import user_number

if TYPE_CHECKING:
    from nbstream.addresses import ListenAddress
    from nbstream.config import Settings
    from nbstream.daemon.parts import ServerParts
    from nbstream.listeners.dovecot.settings import DovecotListenerSettings
    from nbstream.listeners.http.settings import HttpListenerSettings, MetricsListenerSettings
    from nbstream.listeners.milter.settings import MilterListenerSettings
    from nbstream.listeners.smtp.settings import MailListenerSettings
    from nbstream.listeners.spamd.settings import SpamdListenerSettings
    from nbstream.listeners.stream.settings import StreamListenerSettings
    from nbstream.server.listener import Listener
    from nbstream.server.runtime import Runtime

Section = TypeVar("Section")


@dataclass(frozen=True, slots=True)
class ListenerContext:
    """What a listener is made of besides its section: the settings at the start, parts, and its limits.

    ``listener_name`` is the name of its entry. ``is_draining`` tells whether the process takes no more mail.
    """

    listener_name: str
    settings: Settings
    parts: ServerParts
    runtime: Runtime
    limits: ListenerLimits
    bytes_in_flight: BytesInFlight
    is_draining: Callable[[], bool]

    def message_service(self) -> MessageService:
        """Return a message service for the listener."""
        return MessageService(self.listener_name, self.runtime, self.parts.metrics.delivery)


@dataclass(frozen=True, slots=True)
class ListenerEntry(Generic[Section]):
    """One listener.

    ``name`` is that of its section under ``listeners``, which is None where the listener is off, and its name in
    logs, metrics and the history. ``make`` makes the listener of the section, and ``teachers`` are those who may
    teach through it. A section that has ``listen`` has a socket there.

    ``idle_timeout_seconds`` and ``message_timeout_seconds`` are the time of its clients, and it has room for
    ``least_connections``, though the settings say fewer.

    ``binds_all_addresses``: of a host name with several addresses all are used. ``is_of_workers``: where there are
    several processes, each worker has one, else the supervisor. ``drains_last``: it is drained after the others,
    because monitoring asks it for health or metrics until the end. ``counts_connections``: its clients are counted
    in the metrics.
    """

    name: str
    make: Callable[[Section, ListenerContext], Listener]
    teachers: Callable[[Settings], Teachers]
    idle_timeout_seconds: float = 300
    message_timeout_seconds: float = 300
    least_connections: int = 1
    binds_all_addresses: bool = False
    is_of_workers: bool = True
    drains_last: bool = False
    counts_connections: bool = True

    def section(self, settings: Settings) -> Section | None:
        """Return its section; None where it is off."""
        section: Section | None = getattr(settings.listeners, self.name)
        return section

    def is_on(self, settings: Settings) -> bool:
        """Return whether the settings have this listener."""
        return self.section(settings) is not None

    def listen_address(self, settings: Settings) -> ListenAddress | None:
        """Return where it listens; None where it is off or has no socket."""
        address: ListenAddress | None = getattr(self.section(settings), "listen", None)
        return address

    def limits(self, settings: Settings) -> ListenerLimits:
        """Return the limits of its messages and clients."""
        return ListenerLimits(
            settings.limits.max_message_bytes,
            max(settings.limits.max_connections, self.least_connections),
            self.idle_timeout_seconds,
            self.message_timeout_seconds,
        )

    def make_listener(
        self, settings: Settings, parts: ServerParts, runtime: Runtime, is_draining: Callable[[], bool]
    ) -> Listener:
        """Return the listener, which is on; it is not started yet."""
        section = self.section(settings)
        assert section is not None
        bytes_in_flight = BytesInFlight(settings.limits.max_bytes_in_flight)
        limits = self.limits(settings)
        return self.make(
            section, ListenerContext(self.name, settings, parts, runtime, limits, bytes_in_flight, is_draining)
        )


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
    from nbstream.delivery.outlet import Outlet  # noqa: PLC0415 - see above
    from nbstream.listeners.smtp.listener import SmtpListener  # noqa: PLC0415 - see above
    from nbstream.listeners.smtp.listener_state import SmtpOptions  # noqa: PLC0415 - see above

    parts = context.parts
    outlet = Outlet(parts.next_hop, parts.quarantine)
    options = SmtpOptions(
        context.settings.hostname or socket.getfqdn(),
        context.listener_name,
        section.trusted_proxies,
        section.tls,
        is_lmtp=context.listener_name == names.LMTP,
    )
    return SmtpListener(
        context.limits, options, context.bytes_in_flight, outlet, context.runtime, parts.metrics.delivery
    )


def _make_http(section: HttpListenerSettings, context: ListenerContext) -> Listener:
    return make_http_listener(
        section,
        context.settings,
        context.parts,
        context.message_service(),
        context.limits,
        context.bytes_in_flight,
        context.is_draining,
    )


def _make_spamd(_: SpamdListenerSettings, context: ListenerContext) -> Listener:
    return SpamdListener(context.limits, context.bytes_in_flight, context.message_service())


def _make_milter(_: MilterListenerSettings, context: ListenerContext) -> Listener:
    from nbstream.listeners.milter.listener import MilterListener  # noqa: PLC0415 - as for SMTP

    return MilterListener(context.limits, context.bytes_in_flight, context.runtime, context.parts.metrics.delivery)


def _make_stream(section: StreamListenerSettings, context: ListenerContext) -> Listener:
    settings, clients = context.settings, context.parts.clients
    queue = stream_queue.StreamQueue(
        clients.client,
        clients.blocking_client,
        ModelKeys(settings.model.name),
        stream_queue.StreamQueueOptions(
            claim_seconds=section.claim_seconds,
            timeout_seconds=settings.redis.timeout_seconds,
        ),
    )
    limits = StreamLimits(claim_seconds=section.claim_seconds)
    observer = StreamMetrics(context.parts.metrics.registry)
    return StreamListener(queue, limits, context.bytes_in_flight, context.message_service(), observer)


def _make_dovecot(section: DovecotListenerSettings, context: ListenerContext) -> Listener:
    trusted_users = frozenset((0, os.getuid(), *map(_user_number, section.trusted_users)))
    spool = MessageSpool(context.settings.state_dir / SPOOL_FOLDER, section.spool_max_bytes)
    observer = SpoolMetrics(context.parts.metrics.registry)
    return DovecotListener(
        context.limits, trusted_users, spool, context.bytes_in_flight, context.message_service(), observer
    )


def _user_number(name: str) -> int:
    try:
        return user_number(name)
    except LookupError as error:
        raise ConfigError(f"listeners.dovecot.trusted_users: there is no user {name}") from error


def _make_metrics(_: MetricsListenerSettings, context: ListenerContext) -> Listener:
    return make_metrics_listener(context.parts.metrics.registry.render_for_listener, context.limits)


LISTENERS: tuple[ListenerEntry[Any], ...] = (
    ListenerEntry(
        names.SMTP,
        make=_make_mail,
        teachers=_peers_that_may_teach,
        message_timeout_seconds=1800,  # for each message; RFC 5321 4.5.3.2 asks for 5 minutes between commands
        binds_all_addresses=True,
    ),
    ListenerEntry(
        names.LMTP,
        make=_make_mail,
        teachers=_peers_that_may_teach,
        message_timeout_seconds=1800,
        binds_all_addresses=True,
    ),
    ListenerEntry(
        names.HTTP,
        make=_make_http,
        teachers=_peers_that_may_teach,
        idle_timeout_seconds=60,
        message_timeout_seconds=60,
        drains_last=True,
    ),
    ListenerEntry(
        names.SPAMD,
        make=_make_spamd,
        teachers=_peers_that_may_teach,
    ),
    ListenerEntry(
        names.MILTER,
        make=_make_milter,
        teachers=_peers_that_may_teach,
        idle_timeout_seconds=7200,  # a connection lives as long as the SMTP session, an hour with Sendmail
        least_connections=500,  # each SMTP client of the mail server has a connection of its own
    ),
    ListenerEntry(
        names.STREAM,
        make=_make_stream,
        counts_connections=False,
        teachers=_nobody_by_address,
    ),
    ListenerEntry(
        names.DOVECOT,
        make=_make_dovecot,
        teachers=_nobody_by_address,
        idle_timeout_seconds=30,
        message_timeout_seconds=60,  # also the time that the disk may take
    ),
    ListenerEntry(
        names.METRICS,
        make=_make_metrics,
        teachers=_nobody_by_address,
        idle_timeout_seconds=60,
        is_of_workers=False,
        counts_connections=False,
        drains_last=True,
    ),
)
"""All listeners, in the order in which they are opened."""
