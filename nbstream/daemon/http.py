"""The HTTP listener from settings: its routes, who may use them, and what they tell of the daemon."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from nbstream import __version__
from nbstream.daemon.health import HealthCheck
from nbstream.daemon.model_lookups import ModelLookups
from nbstream.listeners.http.access import HttpAccess, PasswordCheck, Passwords
from nbstream.listeners.http.api_v1 import ApiLookups, ApiV1
from nbstream.listeners.http.bodies import BodyReader
from nbstream.listeners.http.listener import HttpListener, health_routes, metrics_route
from nbstream.listeners.rspamd.api import RspamdApi
from nbstream.store.logins import AttemptCounts

if TYPE_CHECKING:
    from nbstream.config import Settings
    from nbstream.daemon.parts import ServerParts
    from nbstream.listeners.http.settings import HttpListenerSettings
    from nbstream.server.limits import BytesInFlight, ListenerLimits
    from nbstream.server.message_service import MessageService


def make_http_listener(  # noqa: PLR0913, PLR0917 - what the table of listeners has made already
    section: HttpListenerSettings,
    settings: Settings,
    parts: ServerParts,
    message_service: MessageService,
    limits: ListenerLimits,
    bytes_in_flight: BytesInFlight,
    is_draining: Callable[[], bool],
) -> HttpListener:
    """Return the listener with all its routes."""
    # Imported here: where the listener is off, and in all commands, Jinja2 is not loaded.
    from nbstream.page.assembly import PageParts, make_page  # noqa: PLC0415 - see above
    from nbstream.page.now import DaemonFindings  # noqa: PLC0415 - see above

    passwords = PasswordCheck(
        Passwords(
            section.password.get_secret_value() if section.password else None,
            section.write_password.get_secret_value() if section.write_password else None,
        ),
        AttemptCounts(parts.clients.client, parts.model.keys),
    )
    access = HttpAccess(passwords, section.allow_from, lambda: message_service.teachers)
    model_lookups = ModelLookups(settings, parts, lambda: message_service.runtime.spam_filter.policy)
    health_check = HealthCheck(parts, is_draining)
    lookups = ApiLookups(settings.model.name, model_lookups.model_status, model_lookups.message_record)
    bodies = BodyReader(limits, bytes_in_flight)
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
        metrics_route(parts.metrics.registry.render_for_listener),
        *health_routes(health_check.status),
        *ApiV1(message_service, bodies, lookups, __version__).routes(),
        *rspamd.routes(),
    ]
    page = make_page(
        PageParts(
            settings,
            section,
            limits,
            bytes_in_flight,
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
            DaemonFindings(
                health_check.redis_findings,
                health_check.other_findings,
                model_lookups.findings,
                lambda: parts.activity is None or parts.activity.writer.may_publish,
            ),
            model_lookups.model_state,
            model_lookups.message_record,
        )
    )
    return HttpListener(routes, access, limits, message_service, page)


def make_metrics_listener(render: Callable[[], Awaitable[bytes]], limits: ListenerLimits) -> HttpListener:
    """Return a listener with ``/metrics`` and nothing else, for whoever can reach it."""
    return HttpListener([metrics_route(render)], limits=limits)
