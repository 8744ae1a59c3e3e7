"""The HTTP door from settings: its routes, who may use them, and what they tell of the house."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbstream import __version__
from nbstream.assembly import assembly
from nbstream.bayes.counts import CLASSES
from nbstream.filter.message_record import MessageRecord, find_message_record
from nbstream.listeners.http.access import HttpAccess
from nbstream.listeners.http.api_v1 import ApiLookups, ApiV1
from nbstream.listeners.http.bodies import BodyReader, HttpLimits
from nbstream.listeners.http.listener import (
    LISTENER_NAME,
    HealthStatus,
    HttpListener,
    health_routes,
    metrics_route,
)
from nbstream.listeners.http.rspamd import RspamdApi
from nbstream.listeners.message_service import MessageService
from nbstream.policy.verdict import ModelState
from nbstream.wire.api_v1 import ModelStatus

if TYPE_CHECKING:
    from nbstream.config import HttpListenerSettings, Settings
    from nbstream.filter import Filter
    from nbstream.metrics.daemon import DaemonMetrics
    from nbstream.policy.recipient_rules import RecipientRules
    from nbstream.relay.next_hop import NextHop
    from nbstream.store.model.model import Model
    from nbstream.store.recent.checked_messages import RecentMessages
    from nbstream.store.replica.mirror import Mirror


@dataclass(frozen=True, slots=True)
class ServerState:
    """What the door tells of; ``settings`` gives those in force, ``draining`` whether mail is taken no more."""

    settings: Callable[[], Settings]
    metrics: DaemonMetrics
    mirror: Mirror
    model: Model
    memory: RecentMessages
    next_hop: NextHop
    draining: Callable[[], bool]

    async def health(self) -> HealthStatus:
        """Whether mail can be scored and relayed, and what is degraded."""
        degraded: dict[str, str] = {}
        loaded = self.mirror.totals is not None
        if not self.mirror.following:
            counts = f"counts are {self.mirror.lag_seconds:.0f} s old" if loaded else "no counts are loaded"
            degraded["redis"] = f"not followed, {counts}; feedback is deferred"
        reachable = await self.next_hop.reachable()
        if not reachable:
            degraded["next_hop"] = "cannot be reached"
        draining = self.draining()
        if draining:
            degraded["smtp"] = "draining"
        return HealthStatus(loaded and reachable and not draining, degraded)

    def model_status(self) -> ModelStatus | None:
        """The state of the model; None before it is loaded."""
        settings, totals = self.settings(), self.mirror.totals
        if totals is None:
            return None
        learned = dict(zip(CLASSES, (int(count) for count in totals.messages), strict=True))
        return ModelStatus(
            settings.model.name,
            ModelState(learned, settings.model.min_learned.model_dump()),
            int(totals.vocabulary_size),
            assembly.make_policy(settings).thresholds(self.mirror.loaded_first_scores),
            self.mirror.lag_seconds,
        )

    async def message_record(self, message_key: str) -> MessageRecord | None:
        """What is known of a message by its id. Raises ``StoreUnavailable``."""
        return await find_message_record(
            message_key, self.memory, self.model, assembly.make_scorer(self.settings(), self.mirror)
        )


def make_http_listener(settings: HttpListenerSettings, spam_filter: Filter, behind: ServerState) -> HttpListener:
    """The door with all its routes."""
    chosen = behind.settings()
    limits = HttpLimits(
        settings.max_message_bytes,
        settings.max_connections,
        settings.max_bytes_in_flight,
        settings.request_timeout_seconds,
    )
    access = HttpAccess(
        settings.password.get_secret_value() if settings.password else None,
        settings.write_password.get_secret_value() if settings.write_password else None,
        settings.allow_from,
        lambda: behind.settings().feedback.allow_from,
    )
    desk = MessageService(LISTENER_NAME, spam_filter, assembly.mime_limits(chosen), behind.metrics.delivery)
    bodies, facts = BodyReader(limits), ApiLookups(chosen.model.name, behind.model_status, behind.message_record)
    rspamd = RspamdApi(
        desk,
        bodies,
        facts,
        version=__version__,
        health=behind.health,
        verdicts=behind.metrics.delivery.verdicts,
        recent=behind.memory.newest,
        rules=_cached_rules(behind.settings),
    )
    routes = [
        metrics_route(behind.metrics.registry.render_for_listener),
        *health_routes(behind.health),
        *ApiV1(desk, bodies, facts, __version__).routes(),
        *rspamd.routes(),
    ]
    return HttpListener(routes, access, limits, desk)


def _cached_rules(settings: Callable[[], Settings]) -> Callable[[], RecipientRules]:
    """Gives the rules of the settings in force, which are made anew only where those are others."""
    rules_of: tuple[Settings, RecipientRules] | None = None

    def rules() -> RecipientRules:
        nonlocal rules_of
        chosen = settings()
        if rules_of is None or rules_of[0] is not chosen:
            rules_of = chosen, assembly.make_rules(chosen)
        return rules_of[1]

    return rules


def make_metrics_listener(rendered: Callable[[], Awaitable[bytes]]) -> HttpListener:
    """``/metrics`` and nothing else, for whoever can reach it."""
    return HttpListener([metrics_route(rendered)])
