"""The daemon: puts the house together, runs it until a signal, and drains it.

Rules: it starts without an external Redis and without its next hop, says so in ``/readyz``, and recovers by
itself; a configuration or a stored model that cannot be used ends the start. One daemon per state folder.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nbstream import assembly
from nbstream.errors import ConfigError, StoreUnavailable
from nbstream.listeners.delivery import Delivery
from nbstream.listeners.feedback import FeedbackDoor
from nbstream.listeners.http import Health, HttpListener
from nbstream.listeners.smtp import SmtpListener
from nbstream.metrics import Metrics
from nbstream.store.connect import durability_warnings
from nbstream.store.locks import lock_daemon
from nbstream.store.mirror import Mirror

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from nbstream.config import Address, Settings
    from nbstream.filter import Filter
    from nbstream.relay.next_hop import NextHop
    from nbstream.store.embedded import EmbeddedRedis

_log = logging.getLogger(__name__)

_LOAD_SECONDS = 10.0  # mail is taken after this even when the model is not loaded yet


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where the daemon listens, by door."""

    smtp: tuple[str, int] | None = None
    http: tuple[str, int] | None = None
    metrics: tuple[str, int] | None = None


@dataclass(slots=True)
class _House:
    """The running parts that drain and health need."""

    mirror: Mirror
    next_hop: NextHop
    smtp: SmtpListener | None = None
    http: list[HttpListener] = field(default_factory=list)


class Daemon:
    """One process of nbstream; ``run`` returns after a drain."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._stop = asyncio.Event()

    def stop(self) -> None:
        """Begin to drain."""
        self._stop.set()

    async def run(self, on_ready: Callable[[Addresses], None] | None = None) -> None:
        """Serve until ``stop`` or SIGTERM or SIGINT, then drain.

        ``on_ready`` is called once mail is accepted. Raises ``ConfigError`` or ``StoreIncompatible`` where it
        cannot start.
        """
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        with lock_daemon(self._settings.state_dir):
            async with assembly.redis(self._settings) as (client, embedded):
                await self._serve(client, embedded, on_ready)

    async def _serve(
        self, client: Redis, embedded: EmbeddedRedis | None, on_ready: Callable[[Addresses], None] | None
    ) -> None:
        model = assembly.model(self._settings, client)
        try:
            await model.open()
            for warning in [] if embedded else await durability_warnings(client):
                _log.warning("%s", warning)
        except StoreUnavailable as error:
            _log.error("starting without Redis: %s", error)
        mirror = Mirror(model, embedded.ensure_running if embedded else None)
        metrics = Metrics()
        metrics.watch(mirror, assembly.thresholds(self._settings), lambda: mirror.following)
        spam_filter = assembly.spam_filter(self._settings, model, mirror, metrics)
        house = _House(mirror, assembly.next_hop(self._settings))
        following = asyncio.create_task(mirror.run(), name="mirror")
        try:
            # The first message is to be scored, but mail is not to wait for ever.
            await self._wait_for(mirror.loaded, following, _LOAD_SECONDS)
            addresses = await self._open_doors(house, spam_filter, metrics)
            _log.info("ready", extra={"fields": _told(addresses)})
            if on_ready:
                on_ready(addresses)
            await self._wait_for(self._stop, following)
        finally:
            await self._drain(house)
            following.cancel()
            await asyncio.wait([following])
        _log.info("stopped")

    async def _wait_for(
        self, event: asyncio.Event, following: asyncio.Task[None], seconds: float | None = None
    ) -> None:
        """Return at the event, at a signal to stop, or after ``seconds``; raise what ended the mirror."""
        waits = [asyncio.create_task(event.wait()), asyncio.create_task(self._stop.wait())]
        try:
            await asyncio.wait([*waits, following], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waits:
                each.cancel()
        if following.done():
            following.result()

    async def _open_doors(self, house: _House, spam_filter: Filter, metrics: Metrics) -> Addresses:
        settings = self._settings
        found: dict[str, tuple[str, int]] = {}
        listeners = settings.listeners
        if listeners.smtp:
            house.smtp = SmtpListener(
                assembly.smtp_params(listeners.smtp),
                house.next_hop,
                Delivery(spam_filter, assembly.delivery_params(settings), metrics),
                FeedbackDoor(spam_filter, assembly.feedback_params(settings), metrics),
            )
            found["smtp"] = await _opened("smtp", listeners.smtp.listen, house.smtp.start)
        if listeners.http:
            secret = listeners.http.password
            password = secret.get_secret_value() if secret else None
            http = HttpListener(metrics.render, lambda: _health(house), password)
            house.http.append(http)
            found["http"] = await _opened("http", listeners.http.listen, http.start)
        if listeners.metrics:
            scraped = HttpListener(metrics.render, None)
            house.http.append(scraped)
            found["metrics"] = await _opened("metrics", listeners.metrics.listen, scraped.start)
        return Addresses(**found)

    async def _drain(self, house: _House) -> None:
        """No new mail, finish what is in flight, then close the doors; health is served until the end."""
        _log.info("draining")
        if house.smtp:
            await house.smtp.drain(self._settings.drain_seconds)
        for http in house.http:
            await http.close()
        await house.next_hop.close()


async def _health(house: _House) -> Health:
    degraded: dict[str, str] = {}
    loaded = house.mirror.totals is not None
    if not house.mirror.following:
        counts = f"counts are {house.mirror.lag_seconds:.0f} s old" if loaded else "no counts are loaded"
        degraded["redis"] = f"not followed, {counts}; feedback is deferred"
    reachable = await house.next_hop.reachable()
    if not reachable:
        degraded["next_hop"] = "cannot be reached"
    return Health(loaded and reachable, degraded)


async def _opened(name: str, address: Address, start: Callable[[str, int], object]) -> tuple[str, int]:
    """Open one door, or say which one could not be."""
    try:
        return await start(address.host, address.port)  # type: ignore[misc,no-any-return]  # each door's own start
    except OSError as error:
        raise ConfigError(f"listeners.{name}.listen: cannot listen on {address}: {error.strerror}") from error


def _told(addresses: Addresses) -> dict[str, str]:
    pairs = {"smtp": addresses.smtp, "http": addresses.http, "metrics": addresses.metrics}
    return {name: f"{pair[0]}:{pair[1]}" for name, pair in pairs.items() if pair}
