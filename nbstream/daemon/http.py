"""The HTTP listener and the one for metrics: their routes, who may use them, and their entries in the table.

They stand here and not in the room of the protocol, because they show what stands above it: health, the model
and the page.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbstream import __version__
from nbstream.daemon.health import HealthCheck, find_kind
from nbstream.daemon.model_lookups import ModelLookups
from nbstream.listeners.http.access import HttpAccess, PasswordCheck, Passwords
from nbstream.listeners.http.api_v1 import ApiLookups, ApiV1
from nbstream.listeners.http.bodies import BodyReader
from nbstream.listeners.http.listener import HttpListener, health_routes, metrics_route
from nbstream.listeners.http.probe import probe_http, probe_metrics
from nbstream.listeners.rspamd.api import RspamdApi
from nbstream.server.listener import ListenerContext, ListenerEntry
from nbstream.store.logins import AttemptCounts, LoginKeys

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nbstream.config import Settings
    from nbstream.daemon.parts import ServerParts
    from nbstream.findings import Finding
    from nbstream.listeners.http.listener import SubApplication
    from nbstream.listeners.http.settings import HttpListenerSettings, MetricsListenerSettings
    from nbstream.server.probe import Conversation


@dataclass(frozen=True, slots=True)
class HttpContext(ListenerContext):
    """What the HTTP listener is made of: it shows what the whole daemon is and does.

    ``is_draining`` tells whether the process takes no more mail.
    """

    settings: Settings
    parts: ServerParts
    is_draining: Callable[[], bool]


def _make_http(section: HttpListenerSettings, context: HttpContext) -> HttpListener:
    """Return the listener with all its routes."""
    # Imported here: where the listener is off, and in all commands, Jinja2 is not loaded.
    from nbstream.link_page.assembly import make_link_pages  # noqa: PLC0415 - see above
    from nbstream.page.activity import ActivityRecorder  # noqa: PLC0415 - see above
    from nbstream.page.assembly import PageParts, make_page  # noqa: PLC0415 - see above
    from nbstream.page.now_view import DaemonFindings  # noqa: PLC0415 - see above
    from nbstream.user_page.assembly import make_user_page  # noqa: PLC0415 - see above

    settings, parts, message_service = context.settings, context.parts, context.message_service
    passwords = PasswordCheck(
        Passwords(
            section.password.get_secret_value() if section.password else None,
            section.write_password.get_secret_value() if section.write_password else None,
        ),
        AttemptCounts(context.client, LoginKeys(context.keys.model)),
    )
    access = HttpAccess(passwords, section.allow_from, lambda: message_service.teachers)
    model_lookups = ModelLookups(settings, parts, lambda: message_service.runtime.spam_filter.policy)
    health_check = HealthCheck(parts, context.is_draining)
    lookups = ApiLookups(settings.model.name, model_lookups.model_status, model_lookups.message_record)
    bodies = BodyReader(context.limits, context.bytes_in_flight)
    rspamd = RspamdApi(
        message_service,
        bodies,
        lookups,
        version=__version__,
        health=health_check.status,
        verdicts=parts.metrics.delivery.verdicts,
        recent=parts.recent_messages.newest,
    )
    routes = [
        metrics_route(parts.metrics.registry.render),
        *health_routes(health_check.status),
        *ApiV1(message_service, bodies, lookups, __version__).routes(),
        *rspamd.routes(),
    ]
    activity = ActivityRecorder(parts.metrics.registry.collect)
    parts.background.start("activity", activity.run)
    page_parts = PageParts(
        settings,
        section,
        context.limits,
        context.bytes_in_flight,
        passwords,
        message_service,
        parts.clients,
        parts.model,
        parts.mirror,
        parts.autolearn.model if parts.autolearn else None,
        parts.autolearn.mirror if parts.autolearn else None,
        parts.recent_messages,
        parts.next_hop,
        parts.quarantine,
        parts.metrics.delivery,
        parts.metrics.registry,
        DaemonFindings(health_check.redis_findings, health_check.other_findings, model_lookups.findings),
        activity,
        parts.bound_addresses,
        model_lookups.model_state,
        model_lookups.message_record,
    )
    pages: list[SubApplication] = [make_page(page_parts)]
    if settings.user_page:
        pages.append(make_user_page(page_parts, settings.user_page))
    if settings.digest:
        pages.insert(0, make_link_pages(page_parts, settings.digest))  # it may be below another page
    return HttpListener(routes, access, context.limits, message_service, pages)


def _make_metrics(_: MetricsListenerSettings, context: HttpContext) -> HttpListener:
    """Return a listener with ``/metrics`` and nothing else, for whoever can reach it."""
    return HttpListener([metrics_route(context.registry.render)], limits=context.limits)


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
