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
from nbstream.assembly.autolearn import AutolearnParts
from nbstream.assembly.http import ServerState, make_http_listener, make_metrics_listener
from nbstream.assembly.listeners import apply_settings, make_spamd_listener, make_stream_listener
from nbstream.daemon.tasks import cancel_and_wait
from nbstream.errors import StoreUnavailable
from nbstream.filter import CheckQueue, CompositeObserver, RememberingObserver
from nbstream.listeners.smtp.delivery import Delivery
from nbstream.listeners.smtp.feedback import FeedbackMailbox
from nbstream.listeners.smtp.listener import MessageHandlers, SmtpListener
from nbstream.relay.outlet import Outlet
from nbstream.relay.quarantine_retention import QuarantineRetention
from nbstream.store.connection import durability_warnings
from nbstream.store.replica.eviction import Evictor
from nbstream.store.replica.mirror import Mirror

if TYPE_CHECKING:
    from nbstream.assembly.assembly import RedisClients
    from nbstream.assembly.listeners import Listener
    from nbstream.config import Settings
    from nbstream.daemon.addresses import ListenerSockets
    from nbstream.filter import Filter, FilterObserver
    from nbstream.listeners.http.listener import HttpListener
    from nbstream.listeners.stream.listener import StreamListener
    from nbstream.metrics.daemon import DaemonMetrics
    from nbstream.relay.next_hop import NextHop
    from nbstream.store.model.autolearn_layer import AutolearnModel
    from nbstream.store.model.model import Model
    from nbstream.store.recent.checked_messages import RecentMessages

_log = logging.getLogger(__name__)

_REDIS_SECONDS = 10.0  # the start goes on after this without Redis
_LOAD_SECONDS = 10.0  # and mail is taken after this even when the model is not loaded yet
_SETTLE_SECONDS = 1.0  # what was checked last is written at the end, if Redis is there


@dataclass(slots=True)
class _ServerParts:
    """The running parts that drain, health and a reload need."""

    mirror: Mirror
    next_hop: NextHop
    spam_filter: Filter
    model: Model
    recent_messages: RecentMessages
    smtp: SmtpListener | None = None
    http_listeners: list[HttpListener] = field(default_factory=list)
    listeners: list[Listener] = field(default_factory=list)
    stream: StreamListener | None = None

    def filter_for(self, settings: Settings) -> Filter:
        """The filter by these settings."""
        return self.spam_filter.with_policy(assembly.make_filter_policy(settings))


class Server:
    """What serves mail in one process; ``run`` returns after a drain.

    ``worker`` is the number of this one among several, from 1 on; None where it is the only one. The only one, or
    the first, also does what is done once for all: the quarantine's retention, the vocabulary's limit, taking back
    what was learned without people and is disputed, and the warning of a Redis that would lose something.
    """

    def __init__(self, settings: Settings, metrics: DaemonMetrics, *, worker: int | None = None) -> None:
        self.settings = settings
        """The settings in force: only ``config.LIVE_SECTIONS`` of them ever change."""
        self._metrics = metrics
        self._runs_chores = worker in {None, 1}
        self._log_fields = {} if worker is None else {"worker": worker}
        self._parts: _ServerParts | None = None
        self._stop = asyncio.Event()
        metrics.process.set_policy(config.policy_hash(settings))

    @property
    def stopping(self) -> bool:
        """Whether it was told to drain."""
        return self._stop.is_set()

    def stop(self) -> None:
        """Begin to drain."""
        self._stop.set()

    def check_settings(self, settings: Settings) -> None:
        """Build what ``apply_settings`` would build, and raise what fails in it."""
        assembly.make_rules(settings)
        if self._parts:
            self._message_handlers(settings, self._parts)

    def apply_settings(self, settings: Settings, since: float | None = None) -> None:
        """Take over the live sections: what may fail is built first, then each is replaced by one assignment.

        They are in force ``since`` then (Unix time), by default from now on.
        """
        parts = self._parts
        handlers = self._message_handlers(settings, parts) if parts else None
        rules = assembly.make_rules(settings)
        logs.set_up_logging(settings.log.format, settings.log.level, self._log_fields)
        self._metrics.process.set_policy(config.policy_hash(settings), since)
        for door in (*parts.listeners, *parts.http_listeners) if parts else ():
            apply_settings(door, settings)
        if parts and parts.stream:
            parts.stream.rules = rules
        if handlers and parts and parts.smtp:
            parts.smtp.message_handlers = handlers
        self.settings = settings

    def _message_handlers(self, settings: Settings, parts: _ServerParts) -> MessageHandlers:
        """What becomes of mail by these settings; the parts with a state are those that run."""
        judging = parts.filter_for(settings)
        outlet = Outlet(parts.next_hop, assembly.make_quarantine(settings))
        return MessageHandlers(
            Delivery(judging, assembly.delivery_options(settings), outlet, self._metrics.delivery),
            FeedbackMailbox(judging, assembly.feedback_options(settings), self._metrics.feedback),
        )

    async def run(
        self, store: RedisClients, sockets: Callable[[], ListenerSockets], on_ready: Callable[[bool], object]
    ) -> None:
        """Serve until ``stop``, then drain.

        ``sockets`` are asked for when the doors are to be opened; ``on_ready`` is called once they are, and told
        whether the counts are loaded. Raises ``ConfigError``, ``StoreIncompatible``, and what ``sockets`` raises.
        """
        model = assembly.make_model(self.settings, store.client)
        await self._run_until_stopped(_REDIS_SECONDS, self._check_store(store, model))
        mirror = Mirror(
            assembly.make_model(self.settings, store.blocking_client),
            self.settings.redis.timeout_seconds,
            store.embedded.ensure_running if store.embedded else None,
        )
        metrics = self._metrics
        metrics.watch_model(mirror, lambda: assembly.make_filter_policy(self.settings))
        memory = assembly.make_recent_messages(self.settings, model, metrics.store.not_remembered)
        observers: list[FilterObserver] = [metrics.filter, RememberingObserver(memory.remember)]
        beside = (
            AutolearnParts.from_settings(self.settings, store, model, mirror, metrics)
            if self.settings.autolearn
            else None
        )
        if beside:
            observers.append(beside.learner)
        spam_filter = assembly.make_filter(
            self.settings,
            model,
            mirror,
            CompositeObserver(*observers),
            memory=memory,
            auto=beside.layer if beside else None,
            line=CheckQueue(),
        )
        parts = self._parts = _ServerParts(
            mirror, assembly.make_next_hop(self.settings), spam_filter, model, memory
        )
        remembering = asyncio.create_task(memory.run(), name="memory")
        owned = [asyncio.create_task(mirror.run(), name="mirror")]
        if beside:
            running = beside.runnable_parts(settling=self._runs_chores)
            owned += [asyncio.create_task(part.run(), name=name) for name, part in running.items()]
        owned += self._start_chores(parts, beside) if self._runs_chores else []
        # Not owned: it comes to its end. The embedded server loses nothing.
        asked = self._runs_chores and not store.embedded
        warning = (
            asyncio.create_task(self._warn_about_durability(store, mirror), name="durability") if asked else None
        )
        try:
            # The first message is to be scored, but mail is not to wait for ever.
            await self._run_until_stopped(_LOAD_SECONDS, mirror.loaded.wait(), *owned)
            if not self.stopping:
                await self._open_listeners(parts, sockets())
                parts.stream = make_stream_listener(self.settings, store, parts.filter_for(self.settings), metrics)
                if parts.stream:
                    parts.listeners.append(parts.stream)
                    owned.append(asyncio.create_task(parts.stream.run(), name="stream"))
                on_ready(mirror.totals is not None)
                await self._run_until_stopped(None, self._stop.wait(), *owned)
        finally:
            await self._drain(parts)
            if warning:
                await cancel_and_wait(warning)
            with suppress(TimeoutError):
                await asyncio.wait_for(memory.wait_until_written(), _SETTLE_SECONDS)
            for task in (remembering, *owned):
                await cancel_and_wait(task)

    def _start_chores(self, parts: _ServerParts, beside: AutolearnParts | None) -> list[asyncio.Task[None]]:
        settings, metrics = self.settings, self._metrics
        retention = QuarantineRetention(
            assembly.make_quarantine(settings), settings.quarantine.days, metrics.delivery.quarantine_swept
        )
        found = [asyncio.create_task(retention.run(), name="retention")]
        limit = settings.model.max_tokens
        if limit is not None:
            found += self._start_evictor(parts.model, parts.mirror, limit)
            found += self._start_evictor(beside.model, beside.mirror, limit) if beside else []
        return found

    def _start_evictor(
        self, model: Model | AutolearnModel, mirror: Mirror, limit: int
    ) -> list[asyncio.Task[None]]:
        """The task that keeps the vocabulary within its limit."""
        return [
            asyncio.create_task(Evictor(model, mirror, limit, self._metrics.store.evicted).run(), name="sweeper")
        ]

    async def _check_store(self, store: RedisClients, model: Model) -> None:
        """Start the embedded server, look at what is stored; only what no waiting can mend is raised."""
        try:
            if store.embedded:
                await store.embedded.ensure_running()
            await model.open()
        except StoreUnavailable as error:
            _log.error("starting without Redis: %s", error)

    @staticmethod
    async def _warn_about_durability(store: RedisClients, mirror: Mirror) -> None:
        """Say what an external server would lose, as soon as it is there."""
        await mirror.loaded.wait()
        try:
            for warning in await durability_warnings(store.client):
                _log.warning("%s", warning)
        except StoreUnavailable as error:
            _log.warning("Redis was not asked whether it persists: %s", error)

    async def _run_until_stopped(
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

    async def _open_listeners(self, parts: _ServerParts, sockets: ListenerSockets) -> None:
        settings, metrics, judging = self.settings, self._metrics, parts.filter_for(self.settings)
        listeners = settings.listeners
        for name in sockets.keys() - {"metrics"}:
            metrics.delivery.listener_opened(name)
        if listeners.smtp:
            handlers = self._message_handlers(settings, parts)
            params = assembly.smtp_limits(listeners.smtp)
            parts.smtp = SmtpListener(params, parts.next_hop, handlers.delivery, handlers.feedback)
            await parts.smtp.start(*sockets["smtp"])
        if listeners.http:
            http = make_http_listener(listeners.http, judging, self._server_state(parts))
            await http.start(*sockets["http"])
            parts.http_listeners.append(http)
        spamd = make_spamd_listener(settings, judging, metrics.delivery)
        if spamd:
            await spamd.start(*sockets["spamd"])
            parts.listeners.append(spamd)
        if "metrics" in sockets:
            for_scrapers = make_metrics_listener(metrics.registry.render_for_listener)
            await for_scrapers.start(*sockets["metrics"])
            parts.http_listeners.append(for_scrapers)

    def _server_state(self, parts: _ServerParts) -> ServerState:
        return ServerState(
            settings=lambda: self.settings,
            metrics=self._metrics,
            mirror=parts.mirror,
            model=parts.model,
            memory=parts.recent_messages,
            next_hop=parts.next_hop,
            draining=lambda: parts.smtp is not None and parts.smtp.draining,
        )

    async def _drain(self, parts: _ServerParts) -> None:
        """No new mail, finish what is in flight, then close the doors; health is served until the end."""
        _log.info("draining")
        loop = asyncio.get_running_loop()
        until = loop.time() + self.settings.drain_seconds  # for all together: a supervisor waits no longer
        smtp = [parts.smtp] if parts.smtp else []
        waves: list[list[SmtpListener | Listener]] = [[*smtp, *parts.listeners], [*parts.http_listeners]]
        for doors in waves:
            seconds = max(0.0, until - loop.time())
            await asyncio.gather(*(door.drain(seconds) for door in doors))
        await parts.next_hop.close()
