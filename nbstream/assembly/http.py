"""The HTTP listener from settings: its routes, who may use them, and what they tell of the daemon."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbstream import __version__
from nbstream.assembly.filter import make_scorer
from nbstream.bayes.counts import CLASSES
from nbstream.errors import StoreNotPrimary
from nbstream.filter.message_record import MessageRecord, find_message_record
from nbstream.listeners.http.access import HttpAccess
from nbstream.listeners.http.api_v1 import ApiLookups, ApiV1
from nbstream.listeners.http.bodies import BodyReader, HttpLimits
from nbstream.listeners.http.listener import (
    HealthStatus,
    HttpListener,
    health_routes,
    metrics_route,
)
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
class ServerState:
    """The state of the process as clients see it.

    ``policy`` gives the policy in force, ``is_draining`` whether mail is taken no more.
    """

    settings: Settings
    parts: ServerParts
    policy: Callable[[], FilterPolicy]
    is_draining: Callable[[], bool]

    async def health(self) -> HealthStatus:
        """Return whether mail can be scored and relayed, and what is degraded."""
        degraded: dict[str, str] = {}
        mirror = self.parts.mirror
        is_loaded = mirror.totals is not None
        if not mirror.following:
            counts = f"counts are {mirror.lag_seconds:.0f} s old" if is_loaded else "no counts are loaded"
            degraded["redis"] = f"not followed, {counts}; feedback is deferred"
        elif self.parts.clients.primary.is_replica:
            degraded["redis"] = "only a replica is reached; feedback is deferred"
        elif self._writes_are_refused():
            degraded["redis"] = "writes are refused; feedback is deferred"
        next_hop_problem = await self.parts.next_hop.problem()
        if next_hop_problem:
            degraded["next_hop"] = next_hop_problem
        quarantine_problem = await self.parts.quarantine.problem()
        if quarantine_problem:  # all other mail still goes its way
            degraded["quarantine"] = quarantine_problem
        is_draining = self.is_draining()
        if is_draining:
            degraded["smtp"] = "draining"
        return HealthStatus(is_loaded and not next_hop_problem and not is_draining, degraded)

    def _writes_are_refused(self) -> bool:
        refusal = self.parts.model.last_refusal
        # Whether the server is the primary by now is known without a lesson.
        return refusal is not None and not isinstance(refusal, StoreNotPrimary)

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
    state = ServerState(settings, parts, lambda: message_service.runtime.spam_filter.policy, is_draining)
    lookups = ApiLookups(settings.model.name, state.model_status, state.message_record)
    bodies = BodyReader(limits, bytes_in_flight)
    rspamd = RspamdApi(
        message_service,
        bodies,
        lookups,
        version=__version__,
        health=state.health,
        verdicts=parts.metrics.delivery.verdicts,
        recent=parts.recent_messages.newest,
    )
    routes = [
        metrics_route(parts.metrics.registry.render_for_listener),
        *health_routes(state.health),
        *ApiV1(message_service, bodies, lookups, __version__).routes(),
        *rspamd.routes(),
    ]
    return HttpListener(routes, access, limits, message_service)


def make_metrics_listener(render: Callable[[], Awaitable[bytes]]) -> HttpListener:
    """Return a listener with ``/metrics`` and nothing else, for whoever can reach it."""
    return HttpListener([metrics_route(render)])
