"""The daemon of one process: it serves mail, and reloads and answers commands meanwhile.

Where several processes serve mail, ``daemon.supervisor`` is in its place.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING

from nbstream import __version__
from nbstream.daemon import signals
from nbstream.daemon.assembly.store import open_redis
from nbstream.daemon.metrics import DaemonMetrics
from nbstream.daemon.reloader import READ_SECONDS, Reloader
from nbstream.daemon.server import Server
from nbstream.daemon.service_manager import ServiceManager
from nbstream.daemon.sockets import ListenerSockets
from nbstream.daemon.status import log_ready, policy_answer, service_status
from nbstream.engine.choice import choose_engine
from nbstream.file_locks import lock_daemon
from nbstream.logs import event_fields
from nbstream.server.background import BackgroundTasks
from nbstream.server.control_socket import ControlListener
from nbstream.store.cancellation import cancel_and_wait

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
    from concurrent.futures import Future

    from nbstream.daemon.config import Settings
    from nbstream.daemon.reloader import ReloadResult
    from nbstream.daemon.sockets import ListenAddresses, SocketsByName
    from nbstream.server.control_socket import SendAnswer

_log = logging.getLogger(__name__)


class Daemon:
    """What ``nbstream serve`` runs; ``run`` returns after a drain.

    Raises ``ConfigError`` where the engine that the settings ask for does not fit.
    """

    def __init__(self, settings: Settings, service_manager: ServiceManager | None = None) -> None:
        self._settings = settings
        self._service_manager = service_manager or ServiceManager()
        self._engine = choose_engine()
        self._metrics = DaemonMetrics.create(self._engine)
        self._server = Server(settings, self._engine, self._metrics)
        self._sockets: ListenerSockets | None = None
        self._reloader = Reloader(settings, self._server.apply_settings, self._metrics.process)
        self._reload_requested = asyncio.Event()
        self._reload_lock = asyncio.Lock()
        self._answering: set[asyncio.Task[None]] = set()

    def stop(self) -> None:
        """Begin to drain."""
        self._service_manager.stopping()
        self._server.stop()

    def reload(self) -> None:
        """Read the configuration anew, soon; log, metrics and the control socket say whether it was applied.

        That works from the first moment of ``run`` to its last: while it waits for Redis, and while it drains. One
        reload answers all requests that came before it began.
        """
        self._reload_requested.set()

    async def run(self, on_ready: Callable[[ListenAddresses], None] = lambda _: None) -> None:
        """Serve until ``stop`` or SIGTERM or SIGINT, then drain; SIGHUP reloads.

        ``on_ready`` is called once mail is accepted. Raises ``ConfigError``, ``CannotStart`` or
        ``StoreIncompatible``.
        """
        signals.handle_signals(self.stop, self.reload, asyncio.get_running_loop().add_signal_handler)
        fields = event_fields(engine=self._engine.name, because=self._engine.reason)
        _log.info("starting nbstream %s", __version__, extra=fields)

        def ready() -> None:
            addresses = self._bound_addresses
            log_ready(self._server.is_loaded, addresses)
            self._service_manager.ready(service_status(self._server.is_loaded))
            on_ready(addresses)

        with lock_daemon(self._settings.state_dir):
            async with (
                self._reload_and_answer(),
                open_redis(self._settings, self._metrics.store.primary_lost) as clients,
            ):
                try:
                    await self._server.run(clients, self._open_sockets, ready)
                finally:
                    if self._sockets:
                        self._sockets.remove_files()
            _log.info("stopped")

    def _open_sockets(self) -> SocketsByName:
        self._sockets = ListenerSockets(self._settings)
        return self._sockets.by_name

    @property
    def _bound_addresses(self) -> ListenAddresses:
        return self._sockets.bound_addresses if self._sockets else {}

    @asynccontextmanager
    async def _reload_and_answer(self) -> AsyncIterator[None]:
        """Reload on request, answer on the control socket, and say to the service manager how the daemon does."""
        loop = asyncio.get_running_loop()
        handlers = {
            "reload": lambda send: self._answer_soon(send, self._reload()),
            "pending": lambda send: self._answer_soon(send, self._pending()),
            "policy": lambda send: send(self._policy_answer()),
        }
        control = ControlListener(handlers, loop.add_reader, loop.remove_reader)
        background = BackgroundTasks(self._metrics.process.background_failed)
        background.start("reloading", self._reload_on_request)
        self._service_manager.watch(background, lambda: service_status(self._server.is_loaded))
        try:
            control.start(self._settings.state_dir)
        except OSError as error:
            _log.warning("nbstream reload cannot reach this daemon, use SIGHUP: %s", error)
        try:
            yield
        finally:
            control.close()
            await background.stop()
            for answering in [*self._answering]:
                await cancel_and_wait(answering)

    async def _reload_on_request(self) -> None:
        while True:
            await self._reload_requested.wait()
            self._reload_requested.clear()
            await self._reload()

    async def _reload(self) -> ReloadResult:
        """Read the file now and apply it, after a reload that is under way, which may have read an older file."""
        async with self._reload_lock:
            with self._service_manager.reloading():
                return self._reloader.reload(await self._read_settings())

    async def _pending(self) -> ReloadResult:
        async with self._reload_lock:
            return self._reloader.pending(await self._read_settings())

    async def _read_settings(self) -> Future[Settings]:
        reading = self._reloader.start_reading()
        waiting = asyncio.wrap_future(reading)
        waiting.add_done_callback(
            lambda done: done.cancelled() or done.exception()
        )  # whoever has ``reading`` says it
        await asyncio.wait([waiting], timeout=READ_SECONDS)
        return reading

    def _answer_soon(self, send: SendAnswer, work: Awaitable[ReloadResult]) -> None:
        async def answer() -> None:
            send(asdict(await work))

        task = asyncio.create_task(answer(), name="control")
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)

    def _policy_answer(self) -> Mapping[str, object]:
        return policy_answer(self._reloader, self._engine, self._bound_addresses, [])
