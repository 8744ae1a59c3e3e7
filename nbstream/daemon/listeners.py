"""The table of listeners: what the rest of the daemon knows about a protocol.

Sockets, start, reload, drain, the rule who may teach and the questions of ``nbstream doctor`` all go through this
table. A protocol is a package in ``listeners`` with one entry here, and its section of the settings in
``ListenersSettings``. The table does not say one thing: ``nbstream serve`` names the SMTP listener in its
hints for a newcomer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from nbstream.daemon.health import find_kind
from nbstream.daemon.server_parts import HttpContext
from nbstream.delivery.outlet import Outlet
from nbstream.listeners.dovecot import DOVECOT
from nbstream.listeners.http import probe_http, probe_metrics
from nbstream.listeners.milter import MILTER
from nbstream.listeners.smtp import LMTP, SMTP
from nbstream.listeners.spamd import SPAMD
from nbstream.listeners.stream import STREAM
from nbstream.server.limits import BytesInFlight
from nbstream.server.listener import ListenerEntry
from nbstream.server.message_service import MessageService

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nbstream.daemon.config import Settings
    from nbstream.daemon.server_parts import ServerParts
    from nbstream.findings import Finding
    from nbstream.listeners.http.settings import HttpListenerSettings, MetricsListenerSettings
    from nbstream.server.listener import Listener
    from nbstream.server.probe import Conversation
    from nbstream.server.runtime import Runtime


def _make_http(section: HttpListenerSettings, context: HttpContext) -> Listener:
    from nbstream.daemon.http import make_http_listener  # noqa: PLC0415 - loaded where there is one

    return make_http_listener(section, context)


def _make_metrics(_: MetricsListenerSettings, context: HttpContext) -> Listener:
    from nbstream.daemon.http import make_metrics_listener  # noqa: PLC0415 - loaded where there is one

    return make_metrics_listener(context)


def _remedy(part: str, sentence: str) -> str | None:
    kind = find_kind(part, sentence)
    return kind.remedy if kind else None


async def _probe_http(conversation: Conversation) -> Sequence[Finding]:
    return await probe_http(conversation, _remedy)


HTTP = ListenerEntry(
    "http", _make_http, _probe_http, idle_timeout_seconds=60, message_timeout_seconds=60, drains_last=True
)
METRICS = ListenerEntry(
    "metrics",
    _make_metrics,
    probe_metrics,
    idle_timeout_seconds=60,
    shares_socket=True,
    drains_last=True,
    counts_connections=False,
    teaches_by_address=False,
)

LISTENERS: tuple[ListenerEntry[Any, Any], ...] = (SMTP, LMTP, HTTP, SPAMD, MILTER, STREAM, DOVECOT, METRICS)
"""All listeners, in the order in which they are opened."""


def make_listener(
    entry: ListenerEntry[Any, Any],
    settings: Settings,
    parts: ServerParts,
    runtime: Runtime,
    is_draining: Callable[[], bool],
) -> Listener:
    """Return the listener, which is on; it is not started yet.

    ``is_draining`` tells whether the process takes no more mail.
    """
    context = HttpContext(
        name=entry.name,
        limits=entry.limits(settings.limits),
        bytes_in_flight=BytesInFlight(settings.limits.max_bytes_in_flight),
        runtime=runtime,
        message_service=MessageService(entry.name, runtime, parts.metrics.delivery),
        metrics=parts.metrics.delivery,
        registry=parts.metrics.registry,
        outlet=Outlet(parts.next_hop, parts.quarantine),
        background=parts.background,
        client=parts.clients.client,
        blocking_client=parts.clients.blocking_client,
        redis_timeout_seconds=settings.redis.timeout_seconds,
        keys=parts.model.keys,
        state=parts.state,
        hostname=settings.hostname,
        settings=settings,
        parts=parts,
        is_draining=is_draining,
    )
    return entry.make(entry.section(settings.listeners), context)
