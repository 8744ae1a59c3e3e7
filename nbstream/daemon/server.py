"""The parts of one process that serve mail, from their start to their drain.

Rules: it starts without an external Redis and without its next hop, says so in ``/readyz``, and recovers by
itself; a configuration or a stored model that cannot be used ends the start.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from nbstream import config, logs
from nbstream.assembly import assembly
from nbstream.assembly.autolearn import Beside
from nbstream.assembly.http import Behind, http_door, metrics_door
from nbstream.assembly.listeners import adopt, spamd_door, stream_door
from nbstream.daemon.tasks import ended
from nbstream.errors import StoreUnavailable
from nbstream.filter import Line, Remembering, Several
from nbstream.listeners.smtp.delivery import Delivery
from nbstream.listeners.smtp.feedback import FeedbackDoor
from nbstream.listeners.smtp.listener import Handlers, SmtpListener
from nbstream.relay.outlet import Outlet
from nbstream.relay.quarantine_retention import Retention
from nbstream.store.connection import durability_warnings
from nbstream.store.replica.eviction import Sweeper
from nbstream.store.replica.mirror import Mirror

if TYPE_CHECKING:
    from nbstream.assembly.assembly import Store
    from nbstream.assembly.listeners import Door
    from nbstream.config import Settings
    from nbstream.daemon.addresses import Sockets
    from nbstream.filter import Filter, Observer
    from nbstream.listeners.http.listener import HttpListener
    from nbstream.listeners.stream.listener import StreamDoor
    from nbstream.metrics.metrics import Metrics
    from nbstream.relay.next_hop import NextHop
    from nbstream.store.model.model import Model
    from nbstream.store.recent.checked_messages import Memory

_log = logging.getLogger(__name__)

_REDIS_SECONDS = 10.0  # the start goes on after this without Redis
_LOAD_SECONDS = 10.0  # and mail is taken after this even when the model is not loaded yet
_SETTLE_SECONDS = 1.0  # what was checked last is written at the end, if Redis is there


@dataclass(slots=True)
class _Parts:
    """The running parts that drain, health and a reload need."""

    mirror: Mirror
    next_hop: NextHop
    spam_filter: Filter
    model: Model
    memory: Memory
    smtp: SmtpListener | None = None
    http: list[HttpListener] = field(default_factory=list)
    doors: list[Door] = field(default_factory=list)
    stream: StreamDoor | None = None

    def judging(self, settings: Settings) -> Filter:
        """The filter by these settings."""
        return self.spam_filter.with_params(assembly.filter_params(settings))


class House:
    """What serves mail in one process; ``run`` returns after a drain.

    ``worker`` is the number of this one among several, from 1 on; None where it is the only one. The only one, or
    the first, also does what is done once for all: the quarantine's retention, the vocabulary's limit, taking back
    what was learned without people and is disputed, and the warning of a Redis that would lose something.
    """

    def __init__(self, settings: Settings, metrics: Metrics, *, worker: int | None = None) -> None:
        self.settings = settings
        """The settings in force: only ``config.LIVE`` of them ever change."""
        self._metrics = metrics
        self._chores = worker in {None, 1}
        self._named = {} if worker is None else {"worker": worker}
        self._parts: _Parts | None = None
        self._stop = asyncio.Event()
        metrics.policy(config.policy_hash(settings))

    @property
    def stopping(self) -> bool:
        """Whether it was told to drain."""
        return self._stop.is_set()

    def stop(self) -> None:
        """Begin to drain."""
        self._stop.set()

    def try_out(self, settings: Settings) -> None:
        """Build what ``adopt`` would build, and raise what fails in it."""
        assembly.rules(settings)
        if self._parts:
            self._handlers(settings, self._parts)

    def adopt(self, settings: Settings, since: float | None = None) -> None:
        """Take over the live sections: what may fail is built first, then each is replaced by one assignment.

        They are in force ``since`` then (Unix time), by default from now on.
        """
        parts = self._parts
        handlers = self._handlers(settings, parts) if parts else None
        rules = assembly.rules(settings)
        logs.set_up(settings.log.format, settings.log.level, self._named)
        self._metrics.policy(config.policy_hash(settings), since)
        for door in (*parts.doors, *parts.http) if parts else ():
            adopt(door, settings)
        if parts and parts.stream:
            parts.stream.rules = rules
        if handlers and parts and parts.smtp:
            parts.smtp.handlers = handlers
        self.settings = settings

    def _handlers(self, settings: Settings, parts: _Parts) -> Handlers:
        """What becomes of mail by these settings; the parts with a state are those that run."""
        judging = parts.judging(settings)
        outlet = Outlet(parts.next_hop, assembly.quarantine(settings))
        return Handlers(
            Delivery(judging, assembly.delivery_params(settings), outlet, self._metrics),
            FeedbackDoor(judging, assembly.feedback_params(settings), self._metrics),
        )

    async def run(self, store: Store, sockets: Callable[[], Sockets], on_ready: Callable[[bool], object]) -> None:
        """Serve until ``stop``, then drain.

        ``sockets`` are asked for when the doors are to be opened; ``on_ready`` is called once they are, and told
        whether the counts are loaded. Raises ``ConfigError``, ``StoreIncompatible``, and what ``sockets`` raises.
        """
        model = assembly.model(self.settings, store.client)
        await self._within(_REDIS_SECONDS, self._check_store(store, model))
        mirror = Mirror(
            assembly.model(self.settings, store.follower),
            self.settings.redis.timeout_seconds,
            store.embedded.ensure_running if store.embedded else None,
        )
        metrics = self._metrics
        metrics.watch(mirror, lambda: assembly.filter_params(self.settings))
        memory = assembly.memory(self.settings, model, metrics.not_remembered)
        observers: list[Observer] = [metrics, Remembering(memory.remember)]
        beside = Beside.of(self.settings, store, model, mirror, metrics) if self.settings.autolearn else None
        if beside:
            observers.append(beside.learner)
        spam_filter = assembly.spam_filter(
            self.settings,
            model,
            mirror,
            Several(*observers),
            memory=memory,
            auto=beside.layer if beside else None,
            line=Line(),
        )
        parts = self._parts = _Parts(mirror, assembly.next_hop(self.settings), spam_filter, model, memory)
        remembering = asyncio.create_task(memory.run(), name="memory")
        owned = [asyncio.create_task(mirror.run(), name="mirror")]
        if beside:
            running = beside.parts(settling=self._chores)
            owned += [asyncio.create_task(part.run(), name=name) for name, part in running.items()]
        owned += self._begin_chores(parts, beside) if self._chores else []
        # Not owned: it comes to its end. The embedded server loses nothing.
        asked = self._chores and not store.embedded
        warning = asyncio.create_task(self._warn(store, mirror), name="durability") if asked else None
        try:
            # The first message is to be scored, but mail is not to wait for ever.
            await self._within(_LOAD_SECONDS, mirror.loaded.wait(), *owned)
            if not self.stopping:
                await self._open_doors(parts, sockets())
                parts.stream = stream_door(self.settings, store, parts.judging(self.settings), metrics)
                if parts.stream:
                    parts.doors.append(parts.stream)
                    owned.append(asyncio.create_task(parts.stream.run(), name="stream"))
                on_ready(mirror.totals is not None)
                await self._within(None, self._stop.wait(), *owned)
        finally:
            await self._drain(parts)
            if warning:
                await ended(warning)
            with suppress(TimeoutError):
                await asyncio.wait_for(memory.settled(), _SETTLE_SECONDS)
            for task in (remembering, *owned):
                await ended(task)

    def _begin_chores(self, parts: _Parts, beside: Beside | None) -> list[asyncio.Task[None]]:
        settings, metrics = self.settings, self._metrics
        retention = Retention(assembly.quarantine(settings), settings.quarantine.days, metrics.swept)
        found = [asyncio.create_task(retention.run(), name="retention")]
        limit = settings.model.max_tokens
        if limit is not None:
            found += self._sweeping(parts.model, parts.mirror, limit)
            found += self._sweeping(beside.model, beside.mirror, limit) if beside else []
        return found

    def _sweeping(self, model: Model, mirror: Mirror, limit: int) -> list[asyncio.Task[None]]:
        """The task that keeps the vocabulary within its limit."""
        return [asyncio.create_task(Sweeper(model, mirror, limit, self._metrics.evicted).run(), name="sweeper")]

    async def _check_store(self, store: Store, model: Model) -> None:
        """Start the embedded server, look at what is stored; only what no waiting can mend is raised."""
        try:
            if store.embedded:
                await store.embedded.ensure_running()
            await model.open()
        except StoreUnavailable as error:
            _log.error("starting without Redis: %s", error)

    @staticmethod
    async def _warn(store: Store, mirror: Mirror) -> None:
        """Say what an external server would lose, as soon as it is there."""
        await mirror.loaded.wait()
        try:
            for warning in await durability_warnings(store.client):
                _log.warning("%s", warning)
        except StoreUnavailable as error:
            _log.warning("Redis was not asked whether it persists: %s", error)

    async def _within(
        self, seconds: float | None, work: Coroutine[Any, Any, object], *owned: asyncio.Task[None]
    ) -> None:
        """Return when ``work`` is done, at ``stop``, or after ``seconds``; raise what ended it or a task."""
        working, stopping = asyncio.create_task(work), asyncio.create_task(self._stop.wait())
        watched: list[asyncio.Task[Any]] = [working, stopping, *owned]
        try:
            await asyncio.wait(watched, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            working.cancel()
            stopping.cancel()
        for each in watched:
            if each.done() and not each.cancelled():
                each.result()

    async def _open_doors(self, parts: _Parts, sockets: Sockets) -> None:
        settings, metrics, judging = self.settings, self._metrics, parts.judging(self.settings)
        listeners = settings.listeners
        for name in sockets.keys() - {"metrics"}:
            metrics.opened(name)
        if listeners.smtp:
            handlers = self._handlers(settings, parts)
            params = assembly.smtp_params(listeners.smtp)
            parts.smtp = SmtpListener(params, parts.next_hop, handlers.delivery, handlers.feedback)
            await parts.smtp.start(*sockets["smtp"])
        if listeners.http:
            http = http_door(listeners.http, judging, self._behind(parts))
            await http.start(*sockets["http"])
            parts.http.append(http)
        spamd = spamd_door(settings, judging, metrics)
        if spamd:
            await spamd.start(*sockets["spamd"])
            parts.doors.append(spamd)
        if "metrics" in sockets:
            for_scrapers = metrics_door(metrics.rendered)
            await for_scrapers.start(*sockets["metrics"])
            parts.http.append(for_scrapers)

    def _behind(self, parts: _Parts) -> Behind:
        return Behind(
            settings=lambda: self.settings,
            metrics=self._metrics,
            mirror=parts.mirror,
            model=parts.model,
            memory=parts.memory,
            next_hop=parts.next_hop,
            draining=lambda: parts.smtp is not None and parts.smtp.draining,
        )

    async def _drain(self, parts: _Parts) -> None:
        """No new mail, finish what is in flight, then close the doors; health is served until the end."""
        _log.info("draining")
        loop = asyncio.get_running_loop()
        until = loop.time() + self.settings.drain_seconds  # for all together: a supervisor waits no longer
        smtp = [parts.smtp] if parts.smtp else []
        waves: list[list[SmtpListener | Door]] = [[*smtp, *parts.doors], [*parts.http]]
        for doors in waves:
            seconds = max(0.0, until - loop.time())
            await asyncio.gather(*(door.drain(seconds) for door in doors))
        await parts.next_hop.close()
