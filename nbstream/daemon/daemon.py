"""The process that ``nbstream serve`` is, and the daemon that has no other process beside it.

Where several processes serve mail, ``daemon.supervisor`` is in its place: what both have stands here.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from abc import ABC, abstractmethod
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING

from nbstream import __version__
from nbstream.addresses import TcpAddress
from nbstream.daemon import config
from nbstream.daemon.assembly.store import open_redis
from nbstream.daemon.listeners import HTTP
from nbstream.daemon.metrics import DaemonMetrics
from nbstream.daemon.reloader import Reloader
from nbstream.daemon.server import Server
from nbstream.daemon.server_parts import ServerParts
from nbstream.daemon.service_manager import ServiceManager
from nbstream.daemon.sockets import ListenerSockets
from nbstream.engine.choice import choose_engine
from nbstream.file_locks import lock_daemon
from nbstream.logs import event_fields
from nbstream.server.background import BackgroundTasks
from nbstream.server.control_socket import ControlListener
from nbstream.store.cancellation import cancel_and_wait

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence

    from nbstream.daemon.config import Settings
    from nbstream.daemon.metrics import ProcessMetrics
    from nbstream.daemon.reloader import ReloadResult
    from nbstream.daemon.sockets import ListenAddresses, SocketsByName
    from nbstream.daemon.status import WorkerStatus
    from nbstream.server.control_socket import SendAnswer

_log = logging.getLogger(__name__)

_MAX_REQUESTS = 16  # that wait for the configuration to be read


class MainProcess(ABC):
    """The process that gets the signals: it reloads, answers commands, and tells the service manager how it does.

    ``run`` returns after a drain.
    """

    _worker_count: int | None = None

    def __init__(self, settings: Settings, service_manager: ServiceManager | None = None) -> None:
        self._settings = settings
        self._service_manager = service_manager or ServiceManager()
        self._engine = choose_engine()
        self._sockets: ListenerSockets | None = None
        self._stop = asyncio.Event()
        self._reload_requested = asyncio.Event()
        self._answering: set[asyncio.Task[None]] = set()

    @property
    @abstractmethod
    def _is_loaded(self) -> bool:
        """Whether there are counts to score mail with."""

    @property
    def _lives(self) -> bool:
        """Whether the service manager is to be told that the daemon works."""
        return True

    @property
    def _workers(self) -> Sequence[WorkerStatus]:
        """What is said of the other processes of the daemon."""
        return ()

    @abstractmethod
    async def _serve(self, on_ready: Callable[[], None]) -> None:
        """Serve until ``_stop`` is set, then drain; ``on_ready`` is called once mail is accepted."""

    @abstractmethod
    async def _apply(self, settings: Settings) -> None:
        """Apply all of the settings, or raise and have applied nothing."""

    def stop(self) -> None:
        """Begin to drain."""
        if not self._stop.is_set():
            self._service_manager.stopping()
        self._stop.set()

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
        _handle_signals(self.stop, self.reload)
        fields = event_fields(engine=self._engine.name, because=self._engine.reason, workers=self._worker_count)
        _log.info("starting nbstream %s", __version__, extra=fields)

        def ready() -> None:
            _log.log(
                logging.INFO if self._is_loaded else logging.WARNING,
                "ready" if self._is_loaded else "listening, but not ready: no counts are loaded",
                extra=event_fields(**{name: str(where) for name, where in self._bound_addresses.items()}),
            )
            self._service_manager.ready(self._service_status())
            on_ready(self._bound_addresses)

        with lock_daemon(self._settings.state_dir):
            try:
                await self._serve(ready)
            finally:
                if self._sockets:
                    self._sockets.remove_files()
            _log.info("stopped")

    @property
    def _bound_addresses(self) -> ListenAddresses:
        return self._sockets.bound_addresses if self._sockets else {}

    def _service_status(self) -> str:
        """Return the sentence that ``systemctl status`` shows of a daemon that accepts mail."""
        return "accepts mail" + ("" if self._is_loaded else ", but no mail is scored: no counts are loaded")

    @asynccontextmanager
    async def _reload_and_answer(self, metrics: ProcessMetrics) -> AsyncIterator[BackgroundTasks]:
        """Reload on request, answer on the control socket, and say to the service manager how the daemon does.

        Yields what runs beside that.
        """
        self._reloader = Reloader(self._settings, self._apply, metrics)
        loop = asyncio.get_running_loop()
        handlers = {
            "reload": lambda send: self._answer_soon(send, self._reloader.reload),
            "pending": lambda send: self._answer_soon(send, self._reloader.pending),
            "policy": lambda send: send(self._policy_answer()),
        }
        control = ControlListener(handlers, loop.add_reader, loop.remove_reader)
        background = BackgroundTasks(metrics.background_failed)
        background.start("reloading", self._reload_on_request)
        self._service_manager.watch(background, self._service_status, lambda: self._lives)
        try:
            control.start(self._settings.state_dir)
        except OSError as error:
            _log.warning("nbstream reload cannot reach this daemon, use SIGHUP: %s", error)
        try:
            yield background
        finally:
            control.close()
            await background.stop()
            for answering in [*self._answering]:
                await cancel_and_wait(answering)

    async def _reload_on_request(self) -> None:
        while True:
            await self._reload_requested.wait()
            self._reload_requested.clear()
            await self._reloader.reload()

    def _answer_soon(self, send: SendAnswer, work: Callable[[], Awaitable[ReloadResult]]) -> None:
        if len(self._answering) >= _MAX_REQUESTS:
            send(asdict(self._reloader.refused(["too many requests are waiting; try again later"])))
            return

        async def answer() -> None:
            send(asdict(await work()))

        task = asyncio.create_task(answer(), name="control")
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)

    def _policy_answer(self) -> Mapping[str, object]:
        address = self._bound_addresses.get(HTTP.name)
        return {
            "file": self._reloader.file,
            "policy": config.policy_hash(self._reloader.settings),
            "engine": self._engine.name,
            "version": __version__,
            "workers": [asdict(worker) for worker in self._workers],
            "http": [address.host, address.port] if isinstance(address, TcpAddress) else None,
        }


class Daemon(MainProcess):
    """The daemon of one process: it serves mail, and reloads and answers commands meanwhile."""

    _server: Server | None = None

    @property
    def _is_loaded(self) -> bool:
        return self._server is not None and self._server.is_loaded

    async def _serve(self, on_ready: Callable[[], None]) -> None:
        metrics = DaemonMetrics.create(self._engine)
        async with open_redis(self._settings, metrics.store.primary_lost) as clients:
            parts = ServerParts(self._settings, clients, metrics, self._engine)
            self._server = Server(parts, stop=self._stop)
            async with self._reload_and_answer(metrics.process):
                await self._server.run(self._open_sockets, on_ready)

    def _open_sockets(self) -> SocketsByName:
        self._sockets = ListenerSockets(self._settings)
        return self._sockets.by_name

    async def _apply(self, settings: Settings) -> None:
        assert self._server is not None
        self._server.apply_settings(settings)


def _handle_signals(
    stop: Callable[[], object],
    reload: Callable[[], object],
) -> None:
    """Call ``stop`` at SIGTERM and SIGINT and ``reload`` at SIGHUP; under nohup a closed terminal is no signal."""
    add_handler = asyncio.get_running_loop().add_signal_handler
    for number in (signal.SIGTERM, signal.SIGINT):
        add_handler(number, stop)
    terminals = _terminal_descriptors()

    def handle_hangup() -> None:
        """SIGHUP has two senders: an administrator, and the kernel where the terminal of a daemon is closed."""
        if all(map(os.isatty, terminals)):
            reload()
        else:
            _log.warning("the terminal was closed")
            stop()

    add_handler(signal.SIGHUP, handle_hangup)


def _terminal_descriptors() -> list[int]:
    """Return which standard streams are a terminal whose end ends the daemon; under nohup none is."""
    if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
        return []
    return [number for number in range(3) if os.isatty(number)]
