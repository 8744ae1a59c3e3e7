"""What the server asks of every listener, whatever protocol it speaks, and what an entry of the table says of one.

A protocol is a package of ``listeners``. Its ``__init__`` has its entry, and imports the listener itself only
where one is made: in all commands, and where the listener is off, nothing is loaded for it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from nbstream.server.limits import ListenerLimits

if TYPE_CHECKING:
    import socket

    from redis.asyncio import Redis

    from nbstream.addresses import ListenAddress
    from nbstream.delivery.next_hop import NextHop
    from nbstream.delivery.quarantine import Quarantine
    from nbstream.findings import Finding
    from nbstream.metrics import MetricsRegistry
    from nbstream.server.background import BackgroundTasks
    from nbstream.server.limits import LimitsSettings
    from nbstream.server.message_service import MessageService
    from nbstream.server.probe import Conversation
    from nbstream.server.runtime import Runtime
    from nbstream.settings.values import Section
    from nbstream.store.model.keys import ModelKeys
    from nbstream.store.state_file import StateFile


class Listener(Protocol):
    """A way in for mail or for requests. There is one implementation for each protocol."""

    async def start(self, *sockets: socket.socket) -> None:
        """Serve on these sockets, which listen already."""

    def apply(self, runtime: Runtime) -> None:
        """Go by ``runtime`` from the next message on. It fails for no reason, and waits for nothing."""

    async def drain(self, seconds: float) -> None:
        """Stop accepting, let work under way finish within ``seconds``, then close what is left."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ListenerContext:
    """What a listener is made of besides its section of the settings.

    ``message_service`` has its name and its limits. Mail goes to ``next_hop`` or waits in ``quarantine``.
    ``blocking_client`` is for commands of Redis that wait. ``background`` runs what goes on beside requests, until
    the drain is over. ``hostname`` is that of the settings; None stands for the name that the system has.
    """

    message_service: MessageService
    registry: MetricsRegistry
    next_hop: NextHop
    quarantine: Quarantine
    background: BackgroundTasks
    client: Redis
    blocking_client: Redis
    redis_timeout_seconds: float
    keys: ModelKeys
    state: StateFile
    hostname: str | None


SectionT = TypeVar("SectionT", bound="Section")
ContextT = TypeVar("ContextT", bound=ListenerContext)


async def probe_connection(conversation: Conversation) -> Sequence[Finding]:
    """Say nothing: that the listener accepts connections is enough."""
    return conversation.works("a connection")


@dataclass(frozen=True, slots=True)
class ListenerEntry(Generic[SectionT, ContextT]):
    """One listener in the table.

    ``name`` is that of its section under ``listeners``, which is None where the listener is off, and its name in
    logs, metrics and the history. ``make`` makes the listener of the section; it is not started yet. A section
    that has ``listen`` has a socket there. ``nbstream doctor`` asks the listener with ``probe``, or with
    ``examine`` where it has no socket, and what is wrong shows in Redis.

    ``idle_timeout_seconds`` and ``message_timeout_seconds`` are the time of its clients, and it has room for
    ``least_connections``, though the settings say fewer.

    ``binds_all_addresses``: of a host name with several addresses all are used. ``teaches_by_address``: clients in
    ``feedback.allow_from`` may teach through it; without it, only those without an address, whom permissions have
    let in. ``shares_socket``: where there are several processes, all accept from one socket, and nobody waits
    for one that hangs. ``drains_last``: it is drained after the others, because monitoring asks it for health or
    metrics until the end. ``counts_connections``: its clients are counted in the metrics.
    """

    name: str
    make: Callable[[SectionT, ContextT], Listener]
    probe: Callable[[Conversation], Awaitable[Sequence[Finding]]] = probe_connection
    examine: Callable[[Redis, ModelKeys], Awaitable[Sequence[Finding]]] | None = None
    idle_timeout_seconds: float = 300
    message_timeout_seconds: float = 300
    least_connections: int = 1
    binds_all_addresses: bool = False
    teaches_by_address: bool = True
    shares_socket: bool = False
    drains_last: bool = False
    counts_connections: bool = True

    def section(self, listeners: Section) -> SectionT | None:
        """Return its section of the section ``listeners``; None where it is off."""
        section: SectionT | None = getattr(listeners, self.name)
        return section

    def is_on(self, listeners: Section) -> bool:
        """Return whether the settings have this listener."""
        return self.section(listeners) is not None

    def listen_address(self, listeners: Section) -> ListenAddress | None:
        """Return where it listens; None where it is off or has no socket."""
        address: ListenAddress | None = getattr(self.section(listeners), "listen", None)
        return address

    def limits(self, section: LimitsSettings) -> ListenerLimits:
        """Return the limits of its messages and clients by the section ``limits``."""
        return ListenerLimits(
            section.max_message_bytes,
            max(section.max_connections, self.least_connections),
            self.idle_timeout_seconds,
            self.message_timeout_seconds,
        )
