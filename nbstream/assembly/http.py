"""The HTTP door from settings: its routes, who may use them, and what they tell of the house."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbstream import __version__
from nbstream.assembly import assembly
from nbstream.bayes.counts import CLASSES
from nbstream.filter.message_record import Known, known
from nbstream.listeners.http.access import Access
from nbstream.listeners.http.api_v1 import Facts, OwnApi
from nbstream.listeners.http.bodies import Bodies, Limits
from nbstream.listeners.http.listener import NAME, Health, HttpListener, health_routes, metrics_route
from nbstream.listeners.http.rspamd import RspamdApi
from nbstream.listeners.message_service import Desk
from nbstream.policy.verdict import ModelState
from nbstream.wire.api_v1 import ModelFacts

if TYPE_CHECKING:
    from nbstream.config import HttpListener as HttpSettings
    from nbstream.config import Settings
    from nbstream.filter import Filter
    from nbstream.metrics.metrics import Metrics
    from nbstream.policy.recipient_rules import Rules
    from nbstream.relay.next_hop import NextHop
    from nbstream.store.model.model import Model
    from nbstream.store.recent.checked_messages import Memory
    from nbstream.store.replica.mirror import Mirror


@dataclass(frozen=True, slots=True)
class Behind:
    """What the door tells of; ``settings`` gives those in force, ``draining`` whether mail is taken no more."""

    settings: Callable[[], Settings]
    metrics: Metrics
    mirror: Mirror
    model: Model
    memory: Memory
    next_hop: NextHop
    draining: Callable[[], bool]

    async def health(self) -> Health:
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
        return Health(loaded and reachable and not draining, degraded)

    def facts(self) -> ModelFacts | None:
        """The state of the model; None before it is loaded."""
        settings, totals = self.settings(), self.mirror.totals
        if totals is None:
            return None
        learned = dict(zip(CLASSES, (int(count) for count in totals.messages), strict=True))
        return ModelFacts(
            settings.model.name,
            ModelState(learned, settings.model.min_learned.model_dump()),
            int(totals.vocabulary),
            assembly.policy(settings).thresholds(self.mirror.known_first_scores),
            self.mirror.lag_seconds,
        )

    async def known(self, message_key: str) -> Known | None:
        """What is known of a message by its id. Raises ``StoreUnavailable``."""
        return await known(message_key, self.memory, self.model, assembly.scorer(self.settings(), self.mirror))


def http_door(settings: HttpSettings, spam_filter: Filter, behind: Behind) -> HttpListener:
    """The door with all its routes."""
    chosen = behind.settings()
    limits = Limits(
        settings.max_message_bytes,
        settings.max_connections,
        settings.max_bytes_in_flight,
        settings.request_timeout_seconds,
    )
    access = Access(
        settings.password.get_secret_value() if settings.password else None,
        settings.write_password.get_secret_value() if settings.write_password else None,
        settings.allow_from,
        lambda: behind.settings().feedback.allow_from,
    )
    desk = Desk(NAME, spam_filter, assembly.limits(chosen), behind.metrics)
    bodies, facts = Bodies(limits), Facts(chosen.model.name, behind.facts, behind.known)
    rspamd = RspamdApi(
        desk,
        bodies,
        facts,
        version=__version__,
        health=behind.health,
        verdicts=behind.metrics.verdicts,
        recent=behind.memory.recent,
        rules=_rules(behind.settings),
    )
    routes = [
        metrics_route(behind.metrics.rendered),
        *health_routes(behind.health),
        *OwnApi(desk, bodies, facts, __version__).routes(),
        *rspamd.routes(),
    ]
    return HttpListener(routes, access, limits, desk)


def _rules(settings: Callable[[], Settings]) -> Callable[[], Rules]:
    """Gives the rules of the settings in force, which are made anew only where those are others."""
    known: tuple[Settings, Rules] | None = None

    def rules() -> Rules:
        nonlocal known
        chosen = settings()
        if known is None or known[0] is not chosen:
            known = chosen, assembly.rules(chosen)
        return known[1]

    return rules


def metrics_door(rendered: Callable[[], Awaitable[bytes]]) -> HttpListener:
    """``/metrics`` and nothing else, for whoever can reach it."""
    return HttpListener([metrics_route(rendered)])
