"""The daemon: puts the house together, runs it until a signal, and drains it; reads its file anew meanwhile.

Rules: it starts without an external Redis and without its next hop, says so in ``/readyz``, and recovers by
itself; a configuration or a stored model that cannot be used ends the start. One daemon per state folder.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from nbstream import assembly, config, logs
from nbstream.beside import Beside
from nbstream.doors import Opening, adopt, open_doors, openings, place, stream_door
from nbstream.errors import CannotStart, StoreUnavailable
from nbstream.filter import Remembering, Several
from nbstream.http_door import Behind, http_door, metrics_door
from nbstream.listeners.control import ControlListener
from nbstream.listeners.delivery import Delivery
from nbstream.listeners.feedback import FeedbackDoor
from nbstream.listeners.smtp import Handlers, SmtpListener
from nbstream.listeners.sockets import TcpPlace
from nbstream.metrics import Metrics
from nbstream.relay.outlet import Outlet
from nbstream.relay.retention import Retention
from nbstream.reloading import Reloader
from nbstream.store.connect import durability_warnings
from nbstream.store.locks import lock_daemon
from nbstream.store.mirror import Mirror
from nbstream.store.sweeper import Sweeper

if TYPE_CHECKING:
    from nbstream.assembly import Store
    from nbstream.config import Address, Settings
    from nbstream.doors import Door
    from nbstream.filter import Filter, Observer
    from nbstream.listeners.http import HttpListener
    from nbstream.listeners.stream import StreamDoor
    from nbstream.relay.next_hop import NextHop
    from nbstream.store.checked import Memory
    from nbstream.store.model import Model

_log = logging.getLogger(__name__)

_REDIS_SECONDS = 10.0  # the start goes on after this without Redis
_LOAD_SECONDS = 10.0  # and mail is taken after this even when the model is not loaded yet
_SETTLE_SECONDS = 1.0  # what was checked last is written at the end, if Redis is there


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where the daemon listens, by door."""

    smtp: tuple[str, int] | None = None
    others: Mapping[str, str] = field(default_factory=dict)
    """Of all others: ``HOST:PORT`` or ``unix:PATH``."""


@dataclass(slots=True)
class _House:
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


class Daemon:
    """One process of nbstream; ``run`` returns after a drain."""

    def __init__(self, settings: Settings) -> None:
        self._metrics = Metrics()
        self._metrics.policy(config.policy_hash(settings))
        self._reloader = Reloader(settings, self._apply, self._metrics)
        self._house: _House | None = None
        self._stop = asyncio.Event()

    @property
    def _settings(self) -> Settings:
        """The settings in force: only ``config.LIVE`` of them ever change."""
        return self._reloader.settings

    def stop(self) -> None:
        """Begin to drain."""
        self._stop.set()

    def reload(self) -> None:
        """Read the configuration anew, soon; whether it was applied, log, metrics and the control door say.

        That works from the first moment of ``run`` to its last: while it waits for Redis, and while it drains.
        """
        self._reloader.request()

    async def run(self, on_ready: Callable[[Addresses], None] | None = None) -> None:
        """Serve until ``stop`` or SIGTERM or SIGINT, then drain; SIGHUP reloads.

        ``on_ready`` is called once mail is accepted. Raises ``ConfigError``, ``StoreIncompatible`` or
        ``CannotStart``.
        """
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        terminals = _terminals()
        loop.add_signal_handler(signal.SIGHUP, lambda: self._hung_up(terminals))
        with lock_daemon(self._settings.state_dir):
            async with self._reloading(), assembly.store(self._settings) as store:
                await self._serve(store, on_ready)

    def _hung_up(self, terminals: list[int]) -> None:
        """SIGHUP has two senders: an administrator, and the kernel where the terminal of a daemon is closed."""
        if all(map(os.isatty, terminals)):
            self.reload()
        else:
            _log.warning("the terminal was closed")
            self.stop()

    @asynccontextmanager
    async def _reloading(self) -> AsyncIterator[None]:
        """Reload on request, and answer those that ask for it on the control door."""
        reloading = asyncio.create_task(self._reloader.run(), name="reloading")
        control = ControlListener({"reload": self._asked_to_reload, "policy": self._asked_for_policy})
        try:
            await control.start(self._settings.state_dir)
        except OSError as error:
            _log.warning("nbstream reload cannot ask this daemon, SIGHUP can: %s", error)
        try:
            yield
        finally:
            await control.close()
            await _ended(reloading)

    async def _asked_to_reload(self) -> dict[str, object]:
        return asdict(await self._reloader.reload())

    async def _asked_for_policy(self) -> dict[str, object]:
        return {"file": self._reloader.file, "policy": config.policy_hash(self._settings)}

    def _apply(self, settings: Settings) -> None:
        """Take over the live sections: what may fail is built first, then each is replaced by one assignment."""
        handlers = self._handlers(settings, self._house) if self._house else None
        rules = assembly.rules(settings)
        logs.set_up(settings.log.format, settings.log.level)
        self._metrics.policy(config.policy_hash(settings))
        for door in (*self._house.doors, *self._house.http) if self._house else ():
            adopt(door, settings)
        if self._house and self._house.stream:
            self._house.stream.rules = rules
        if handlers and self._house and self._house.smtp:
            self._house.smtp.handlers = handlers

    def _handlers(self, settings: Settings, house: _House) -> Handlers:
        """What becomes of mail by these settings; the parts with a state are those that run."""
        judging = house.judging(settings)
        outlet = Outlet(house.next_hop, assembly.quarantine(settings))
        return Handlers(
            Delivery(judging, assembly.delivery_params(settings), outlet, self._metrics),
            FeedbackDoor(judging, assembly.feedback_params(settings), self._metrics),
        )

    async def _serve(self, store: Store, on_ready: Callable[[Addresses], None] | None) -> None:
        model = assembly.model(self._settings, store.client)
        await self._within(_REDIS_SECONDS, self._check_store(store, model))
        mirror = Mirror(
            assembly.model(self._settings, store.follower),
            self._settings.redis.timeout_seconds,
            store.embedded.ensure_running if store.embedded else None,
        )
        metrics = self._metrics
        metrics.watch(mirror, lambda: assembly.filter_params(self._settings))
        memory = assembly.memory(self._settings, model, metrics.not_remembered)
        observers: list[Observer] = [metrics, Remembering(memory.remember)]
        beside = Beside.of(self._settings, store, model, mirror, metrics) if self._settings.autolearn else None
        if beside:
            observers.append(beside.learner)
        spam_filter = assembly.spam_filter(
            self._settings,
            model,
            mirror,
            Several(*observers),
            memory=memory,
            auto=beside.layer if beside else None,
        )
        house = self._house = _House(mirror, assembly.next_hop(self._settings), spam_filter, model, memory)
        following = asyncio.create_task(mirror.run(), name="mirror")
        remembering = asyncio.create_task(memory.run(), name="memory")
        retention = Retention(assembly.quarantine(self._settings), self._settings.quarantine.days, metrics.swept)
        keeping = asyncio.create_task(retention.run(), name="retention")
        owned = [following, keeping, *self._sweeping(model, mirror, metrics)]
        if beside:
            owned += [asyncio.create_task(part.run(), name=name) for name, part in beside.parts().items()]
            owned += self._sweeping(beside.model, beside.mirror, metrics)
        warning = asyncio.create_task(self._warn(store, mirror), name="durability")
        try:
            # The first message is to be scored, but mail is not to wait for ever.
            await self._within(_LOAD_SECONDS, mirror.loaded.wait(), *owned)
            if not self._stop.is_set():
                addresses = await self._open_doors(house)
                house.stream = stream_door(self._settings, store, house.judging(self._settings), metrics)
                if house.stream:
                    house.doors.append(house.stream)
                    owned.append(asyncio.create_task(house.stream.run(), name="stream"))
                loaded = mirror.totals is not None
                _log.log(
                    logging.INFO if loaded else logging.WARNING,
                    "ready" if loaded else "listening, but not ready: no counts are loaded",
                    extra={"fields": _told(addresses)},
                )
                if on_ready:
                    on_ready(addresses)
                await self._within(None, self._stop.wait(), *owned)
        finally:
            await self._drain(house)
            warning.cancel()
            with suppress(TimeoutError):
                await asyncio.wait_for(memory.settled(), _SETTLE_SECONDS)
            for task in (remembering, *owned):
                await _ended(task)
        _log.info("stopped")

    def _sweeping(self, model: Model, mirror: Mirror, metrics: Metrics) -> list[asyncio.Task[None]]:
        """The task that keeps the vocabulary within its limit; none where there is no limit."""
        limit = self._settings.model.max_tokens
        if limit is None:
            return []
        return [asyncio.create_task(Sweeper(model, mirror, limit, metrics.evicted).run(), name="sweeper")]

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
            for warning in [] if store.embedded else await durability_warnings(store.client):
                _log.warning("%s", warning)
        except StoreUnavailable as error:
            _log.warning("Redis was not asked whether it persists: %s", error)

    async def _within(
        self, seconds: float | None, work: Coroutine[Any, Any, object], *owned: asyncio.Task[None]
    ) -> None:
        """Return when ``work`` is done, at a signal, or after ``seconds``; raise what ended it or a task."""
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

    async def _open_doors(self, house: _House) -> Addresses:
        settings, metrics = self._settings, self._metrics
        smtp: tuple[str, int] | None = None
        listeners = settings.listeners
        if listeners.smtp:
            handlers = self._handlers(settings, house)
            house.smtp = SmtpListener(
                assembly.smtp_params(listeners.smtp), house.next_hop, handlers.delivery, handlers.feedback
            )
            address = listeners.smtp.listen
            with _named("smtp", address):
                smtp = await house.smtp.start(address.host, address.port)
        others: dict[str, str] = {}
        judging = house.judging(settings)
        if listeners.http:
            http = http_door(listeners.http, judging, self._behind(house))
            others |= await open_doors([Opening("http", place(listeners.http), http)], house.http.append)
        others |= await open_doors(openings(settings, judging, metrics), house.doors.append)
        if listeners.metrics:
            where = TcpPlace(listeners.metrics.listen.host, listeners.metrics.listen.port)
            others |= await open_doors([Opening("metrics", where, metrics_door(metrics))], house.http.append)
        return Addresses(smtp, others)

    def _behind(self, house: _House) -> Behind:
        return Behind(
            settings=lambda: self._settings,
            metrics=self._metrics,
            mirror=house.mirror,
            model=house.model,
            memory=house.memory,
            next_hop=house.next_hop,
            draining=lambda: house.smtp is not None and house.smtp.draining,
        )

    async def _drain(self, house: _House) -> None:
        """No new mail, finish what is in flight, then close the doors; health is served until the end."""
        _log.info("draining")
        loop = asyncio.get_running_loop()
        until = loop.time() + self._settings.drain_seconds  # for all together: a supervisor waits no longer
        smtp = [house.smtp] if house.smtp else []
        waves: list[list[SmtpListener | Door]] = [[*smtp, *house.doors], [*house.http]]
        for doors in waves:
            seconds = max(0.0, until - loop.time())
            await asyncio.gather(*(door.drain(seconds) for door in doors))
        await house.next_hop.close()


def _terminals() -> list[int]:
    """Which of the standard streams are a terminal that the daemon ends with; under nohup none is."""
    if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
        return []
    return [number for number in range(3) if os.isatty(number)]


async def _ended(task: asyncio.Task[None]) -> None:
    """Return when the task is cancelled and done."""
    while not task.done():  # more than once: see mirror.stop_if_cancelled
        task.cancel()
        await asyncio.wait([task], timeout=1)


@contextmanager
def _named(name: str, where: Address) -> Iterator[None]:
    """Say which door could not be opened."""
    try:
        yield
    except OSError as error:
        text = f"listeners.{name}.listen: cannot listen on {where}: {error.strerror}"
        raise CannotStart(text) from error


def _told(addresses: Addresses) -> dict[str, str]:
    smtp = {"smtp": str(TcpPlace(*addresses.smtp))} if addresses.smtp else {}
    return {**smtp, **addresses.others}
