"""What serves mail in one process, from its start to its drain.

Rules: it starts without an external Redis and without its next hop, says so in ``/readyz``, and recovers by
itself; a configuration or a stored model that cannot be used ends the start. A reload makes one ``Runtime``, which
may fail, and hands it to every listener, which may not: all of it is applied, or nothing.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from nbstream import logs
from nbstream.daemon.assembly.policy import make_own_model_names
from nbstream.daemon.listeners import LISTENERS, make_listener, make_runtime
from nbstream.daemon.server_parts import start_background_work
from nbstream.errors import StoreUnavailable
from nbstream.store.connection import durability_risks
from nbstream.store.redis_errors import readable_replies

if TYPE_CHECKING:
    from nbstream.daemon.config import Settings
    from nbstream.daemon.server_parts import ServerParts
    from nbstream.daemon.sockets import SocketsByName
    from nbstream.policy.own_models.names import OwnModelNames
    from nbstream.server.listener import Listener, ListenerEntry
    from nbstream.server.runtime import Runtime


_log = logging.getLogger(__name__)

_REDIS_SECONDS = 10.0  # the start goes on after this without Redis
_LOAD_SECONDS = 10.0  # after this mail is accepted even if the model is not loaded yet
_WRITE_SECONDS = 1.0  # what was checked and learned last is written at the end, if Redis is there


# The checks of Redis and of the stored model when the daemon starts.


async def open_store(parts: ServerParts) -> None:
    """Start the embedded server, and check what is stored; a Redis that is away is logged.

    Raises what waiting cannot mend: ``ConfigError`` and ``StoreIncompatible``.
    """
    try:
        if parts.clients.embedded:
            await parts.clients.embedded.ensure_running()
        with readable_replies():
            await parts.model.open()
    except StoreUnavailable as error:
        _log.error("starting without Redis: %s", error)


async def warn_about_durability(parts: ServerParts, wait_replicas: int) -> None:
    """Log what an external server would lose, as soon as it can be reached; the embedded one loses nothing."""
    if parts.clients.embedded:
        return
    await parts.counts.loaded.wait()
    try:
        for risk in await durability_risks(parts.clients.client, wait_replicas):
            _log.warning("%s %s", risk.what, risk.remedy)
    except StoreUnavailable as error:
        _log.warning("cannot check whether Redis is persistent: %s", error)


async def _wait_until_loaded(parts: ServerParts) -> None:
    """Return when there are counts to score mail with, the sender lists, and what is known of correspondents."""
    await parts.counts.loaded.wait()
    await parts.sender_lists.loaded.wait()
    if parts.correspondents:
        await parts.correspondents.loaded.wait()


class Server:
    """Serves mail in one process; ``run`` returns after a drain.

    ``worker`` is the number of this process among several, from 1 on; None where it is the only one. The only one,
    or the first, also does what is done once for all: the quarantine's retention, the vocabulary's limit,
    and the warning of a Redis that would lose something.
    """

    def __init__(
        self, parts: ServerParts, *, worker: int | None = None, stop: asyncio.Event | None = None
    ) -> None:
        self.settings = parts.settings
        """The settings in force: only the live sections of them ever change."""
        self._parts = parts
        self._does_chores = worker in {None, 1}
        self._log_fields = {} if worker is None else {"worker": worker}
        self._runtime = self._make_runtime(parts.settings, parts.names)
        self._listeners: list[tuple[ListenerEntry[Any, Any], Listener]] = []
        self._stop = stop or asyncio.Event()
        self._is_draining = False

    @property
    def is_loaded(self) -> bool:
        """Whether there are counts to score mail with."""
        return self._parts.counts.totals is not None

    def stop(self) -> None:
        """Begin to drain."""
        self._stop.set()

    def apply_settings(self, settings: Settings) -> None:
        """Take over the live sections: what may fail is made first, and nothing of it holds where it fails."""
        names = make_own_model_names(settings)
        runtime = self._make_runtime(settings, names)
        logs.set_up_logging(settings.log, self._log_fields)
        self._runtime, self.settings = runtime, settings
        former, self._parts.names = self._parts.names, names
        if not names.finds_users_as(former):
            self._parts.background.start("quarantine users", self._parts.quarantine.look_up_users_again)
        self._parts.next_hop.read_authorities_again()
        for _, listener in self._listeners:
            listener.apply(runtime)

    def _make_runtime(self, settings: Settings, names: OwnModelNames) -> Runtime:
        parts = self._parts
        runtime = make_runtime(settings, names, parts.spam_filter, parts.sender_lists.by_owner, parts.own_models)
        return replace(runtime, note_sent=parts.correspondents.note_sent) if parts.correspondents else runtime

    async def run(self, open_sockets: Callable[[], SocketsByName], on_ready: Callable[[], object]) -> None:
        """Serve until ``stop``, then drain.

        ``open_sockets`` is called when the listeners are to be opened, and ``on_ready`` once they are. Raises
        ``ConfigError``, ``StoreIncompatible``, and what ``open_sockets`` raises.
        """
        if self._does_chores:
            for warning in self.settings.warnings:
                _log.warning("%s", warning)
        parts = self._parts
        await self._run_until_stopped(_REDIS_SECONDS, open_store(parts))
        start_background_work(parts, lambda: self._runtime, does_chores=self._does_chores)
        if self._does_chores:
            parts.background.start(
                "durability", partial(warn_about_durability, parts, self.settings.redis.wait_replicas)
            )
        fatal = asyncio.create_task(parts.background.wait_for_end())
        try:
            # The first message is to be scored, but mail is not to wait for ever.
            await self._run_until_stopped(_LOAD_SECONDS, _wait_until_loaded(parts), fatal)
            parts.export_state(lambda: self._runtime.spam_filter.policy)
            if not self._stop.is_set():
                await self._open_listeners(parts, open_sockets())
                on_ready()
                await self._run_until_stopped(None, self._stop.wait(), fatal)
        finally:
            fatal.cancel()
            await self._drain(parts)
            await parts.spam_filter.wait_for_lesson_groups(_WRITE_SECONDS)
            with suppress(TimeoutError):
                async with asyncio.timeout(_WRITE_SECONDS):
                    await parts.recent_messages.wait_until_written()
            await parts.background.stop()
            await parts.own_models.close()

    async def _run_until_stopped(
        self, seconds: float | None, work: Coroutine[Any, Any, object], *tasks: asyncio.Task[None]
    ) -> None:
        """Return when ``work`` is done, at ``stop``, or after ``seconds``; raise what ended it or a task."""
        working, stopping = asyncio.create_task(work), asyncio.create_task(self._stop.wait())
        watched: list[asyncio.Task[Any]] = [working, stopping, *tasks]
        try:
            await asyncio.wait(watched, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            working.cancel()
            stopping.cancel()
        for task in watched:
            if task.done() and not task.cancelled():
                task.result()

    async def _open_listeners(self, parts: ServerParts, sockets: SocketsByName) -> None:
        """Start all listeners of this process."""
        for entry in LISTENERS:
            address = entry.listen_address(self.settings.listeners)
            if not entry.is_on(self.settings.listeners) or (address is not None and entry.name not in sockets):
                continue
            listener = make_listener(entry, self.settings, parts, self._runtime, self._refuses_mail)
            self._listeners.append((entry, listener))
            if entry.counts_connections:
                parts.metrics.delivery.listener_opened(entry.name)
            await listener.start(*sockets.get(entry.name, ()))

    def _refuses_mail(self) -> bool:
        return self._is_draining and self.settings.listeners.smtp is not None

    async def _drain(self, parts: ServerParts) -> None:
        """Accept no new mail, finish what is in flight, then close; health is served until the end.

        A listener whose drain fails is logged, and the others are drained.
        """
        _log.info("draining")
        self._is_draining = True
        loop = asyncio.get_running_loop()
        until = loop.time() + self.settings.drain_seconds  # for all together: a supervisor waits no longer
        for is_last in (False, True):
            seconds = max(0.0, until - loop.time())
            drains = [
                _drain_listener(entry.name, listener, seconds)
                for entry, listener in self._listeners
                if entry.drains_last is is_last
            ]
            await asyncio.gather(*drains)
        await parts.next_hop.close()
        await asyncio.to_thread(parts.state.close)


async def _drain_listener(name: str, listener: Listener, seconds: float) -> None:
    try:
        await listener.drain(seconds)
    except Exception as error:  # noqa: BLE001 - a fault in one listener must not stop the end of the others
        _log.error("cannot drain the listener %s: %s", name, error, exc_info=True)


# Large messages are parsed in threads. Meanwhile the event loop waits up to this long each time that it has work
# to do, about three times for each answer. Python's default is 5 ms: a message of 20 MB would delay others more.
_SWITCH_SECONDS = 0.001


def shorten_switch_interval() -> None:
    """Let the threads of this process, which serves mail, give up the interpreter sooner."""
    sys.setswitchinterval(_SWITCH_SECONDS)
