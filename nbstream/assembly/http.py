"""The HTTP listener from settings: its routes, who may use them, and what they tell of the daemon."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbstream import __version__
from nbstream.assembly.filter import make_scorer
from nbstream.assembly.health import HealthCheck
from nbstream.assembly.page import make_page
from nbstream.bayes.counts import CLASSES
from nbstream.filter.message_record import MessageRecord, find_message_record
from nbstream.listeners.http.access import HttpAccess
from nbstream.listeners.http.api_v1 import ApiLookups, ApiV1
from nbstream.listeners.http.bodies import BodyReader, HttpLimits
from nbstream.listeners.http.listener import HttpListener, health_routes, metrics_route
from nbstream.listeners.http.rspamd import RspamdApi
from nbstream.policy.verdict import ModelState
from nbstream.wire.api_v1 import ModelStatus

if TYPE_CHECKING:
    from nbstream.assembly.parts import ServerParts
    from nbstream.config import HttpListenerSettings, Settings
    from nbstream.filter import FilterPolicy
    from nbstream.listeners.bytes_in_flight import BytesInFlight
    from nbstream.listeners.message_service import MessageService


@dataclass(frozen=True, slots=True)
class ModelLookups:
    """The state of the model as clients see it; ``policy`` gives the policy in force."""

    settings: Settings
    parts: ServerParts
    policy: Callable[[], FilterPolicy]

    def model_status(self) -> ModelStatus | None:
        """Return the state of the model; None before it is loaded."""
        mirror, policy = self.parts.mirror, self.policy()
        totals = mirror.totals
        if totals is None:
            return None
        learned = dict(zip(CLASSES, (int(count) for count in totals.messages), strict=True))
        return ModelStatus(
            self.settings.model.name,
            ModelState(learned, policy.min_learned),
            int(totals.vocabulary_size),
            policy.default_policy.thresholds(mirror.loaded_first_scores),
            mirror.lag_seconds,
        )

    async def message_record(self, message_key: str) -> MessageRecord | None:
        """Return what is known of a message by its id. Raises ``StoreUnavailable``."""
        scorer = make_scorer(self.settings, self.parts.mirror, self.policy())
        return await find_message_record(message_key, self.parts.recent_messages, self.parts.model, scorer)


def make_http_listener(
    section: HttpListenerSettings,
    settings: Settings,
    parts: ServerParts,
    message_service: MessageService,
    bytes_in_flight: BytesInFlight,
    is_draining: Callable[[], bool],
) -> HttpListener:
    """Return the listener with all its routes."""
    limits = HttpLimits(section.max_message_bytes, section.max_connections, section.request_timeout_seconds)
    access = HttpAccess(
        section.password.get_secret_value() if section.password else None,
        section.write_password.get_secret_value() if section.write_password else None,
        section.allow_from,
        lambda: message_service.teachers,
    )
    state = ModelLookups(settings, parts, lambda: message_service.runtime.spam_filter.policy)
    health_check = HealthCheck(parts, is_draining)
    lookups = ApiLookups(settings.model.name, state.model_status, state.message_record)
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
    page = make_page(section, settings, parts, bytes_in_flight)
    return HttpListener(routes, access, limits, message_service, page)


def make_metrics_listener(render: Callable[[], Awaitable[bytes]]) -> HttpListener:
    """Return a listener with ``/metrics`` and nothing else, for whoever can reach it."""
    return HttpListener([metrics_route(render)])
