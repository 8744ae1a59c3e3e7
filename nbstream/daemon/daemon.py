"""The daemon: settings become a running process here, with everything of which there is only one.

That is the lock of the state folder, the signals, the service manager, the control socket and the configuration
with its reloads. Mail is served by this very process, or by workers; the daemon does not see the difference.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Protocol

from nbstream import __version__, config
from nbstream.addresses import TcpAddress
from nbstream.assembly.store import open_redis
from nbstream.daemon import signals
from nbstream.daemon.http import HTTP
from nbstream.daemon.metrics import DaemonMetrics
from nbstream.daemon.reloader import Reloader
from nbstream.daemon.server import Server
from nbstream.daemon.service_manager import ServiceManager
from nbstream.daemon.sockets import ListenerSockets
from nbstream.daemon.supervisor import Supervisor
from nbstream.engine.choice import choose_engine
from nbstream.logs import event_fields
from nbstream.server.control_socket import ControlListener
from nbstream.store.cancellation import cancel_and_wait
from nbstream.store.embedded.locks import lock_daemon

if TYPE_CHECKING:
    from nbstream.config import Settings
    from nbstream.daemon.sockets import ListenAddresses, SocketsByName
    from nbstream.engine.choice import Engine

_log = logging.getLogger(__name__)


class Serving(Protocol):
    """What serves mail for the daemon: ``SingleProcess``, or ``Supervisor`` with its workers."""

    @property
    def is_loaded(self) -> bool:
        """Whether there are counts to score mail with."""

    @property
    def lives(self) -> bool:
        """Whether mail is served, or what is in flight is finished."""

    @property
    def bound_addresses(self) -> ListenAddresses:
        """Where the listeners listen, once they do."""

    async def run(self, on_ready: Callable[[], object]) -> None:
        """Serve until ``stop``, then drain; ``on_ready`` is called once mail is accepted."""

    def stop(self) -> None:
        """Begin to drain."""

    async def apply_settings(self, settings: Settings) -> None:
        """Take over the live sections, or raise and change nothing."""

    def count_reload(self, applied: bool) -> None:
        """Count a reload whose file was applied, or refused."""

    async def worker_roles(self) -> Mapping[int, str | None]:
        """Return the role of each worker with the counts by its process id, None for one that does not answer."""


class Daemon:
    """What ``nbstream serve`` runs; ``run`` returns after a drain.

    Raises ``ConfigError`` where the engine that the settings ask for does not fit.
    """

    def __init__(
        self, settings: Settings, workers: int = 1, service_manager: ServiceManager | None = None
    ) -> None:
        self._state_dir = settings.state_dir
        self._service_manager = service_manager or ServiceManager()
        self._engine = choose_engine(settings.engine)  # each worker chooses in the same way
        self._serving: Serving = (
            SingleProcess(settings, self._engine) if workers == 1 else Supervisor(settings, self._engine, workers)
        )
        self._reloader = Reloader(
            settings,
            self._serving.apply_settings,
            self._serving.count_reload,
            self._service_manager.reloading,
        )

    def stop(self) -> None:
        """Begin to drain."""
        self._service_manager.stopping()
        self._serving.stop()

    def reload(self) -> None:
        """Read the configuration anew, soon; log, metrics and the control socket say whether it was applied.

        That works from the first moment of ``run`` to its last: while it waits for Redis, and while it drains.
        """
        self._reloader.request()

    async def run(self, on_ready: Callable[[ListenAddresses], None] = lambda _: None) -> None:
        """Serve until ``stop`` or SIGTERM or SIGINT, then drain; SIGHUP reloads.

        ``on_ready`` is called once mail is accepted, by all workers. Raises ``ConfigError``, ``CannotStart``,
        ``StoreIncompatible`` or ``WorkerFailed``.
        """
        signals.handle_signals(self.stop, self.reload)
        fields = event_fields(engine=self._engine.name, because=self._engine.reason)
        _log.info("starting nbstream %s", __version__, extra=fields)

        def ready() -> None:
            self._report_ready()
            on_ready(self._serving.bound_addresses)

        with lock_daemon(self._state_dir):
            async with (
                self._service_manager.watched(lambda: self._serving.lives, self._status),
                self._reload_and_answer(),
            ):
                await self._serving.run(ready)
                _log.info("stopped")

    def _report_ready(self) -> None:
        """Log that mail is accepted, and where, and tell the service manager."""
        is_loaded = self._serving.is_loaded
        _log.log(
            logging.INFO if is_loaded else logging.WARNING,
            "ready" if is_loaded else "listening, but not ready: no counts are loaded",
            extra=event_fields(**{name: str(where) for name, where in self._serving.bound_addresses.items()}),
        )
        self._service_manager.ready(self._status())

    def _status(self) -> str:
        """Return the sentence that ``systemctl status`` shows of a daemon that accepts mail."""
        return "accepts mail" + (
            "" if self._serving.is_loaded else ", but does not score it: no counts are loaded"
        )

    @asynccontextmanager
    async def _reload_and_answer(self) -> AsyncIterator[None]:
        """Reload on request, and answer on the control socket."""
        answers = {"reload": self._answer_reload, "pending": self._answer_pending, "policy": self._answer_policy}
        task, control = asyncio.create_task(self._reloader.run(), name="reloading"), ControlListener(answers)
        try:
            await control.start(self._state_dir)
        except OSError as error:
            _log.warning("nbstream reload cannot ask this daemon, SIGHUP can: %s", error)
        try:
            yield
        finally:
            await control.close()
            await cancel_and_wait(task)

    async def _answer_reload(self) -> Mapping[str, object]:
        return asdict(await self._reloader.reload())

    async def _answer_pending(self) -> Mapping[str, object]:
        return asdict(await self._reloader.pending())

    async def _answer_policy(self) -> Mapping[str, object]:
        policy, roles = config.policy_hash(self._reloader.settings), await self._serving.worker_roles()
        address = self._serving.bound_addresses.get(HTTP.name)
        return {
            "file": self._reloader.file,
            "policy": policy,
            "engine": self._engine.name,
            "version": __version__,
            "workers": list(roles),
            "roles": list(roles.values()),
            "http": [address.host, address.port] if isinstance(address, TcpAddress) else None,
        }


class SingleProcess:
    """Serves mail in this very process."""

    lives = True  # the event loop that is asked is the one that serves

    def __init__(self, settings: Settings, engine: Engine) -> None:
        self._settings = settings
        self._metrics = DaemonMetrics.create(engine)
        self._server = Server(settings, engine, self._metrics)
        self._sockets: ListenerSockets | None = None
        self.stop = self._server.stop
        self.count_reload = self._metrics.process.reloaded

    @property
    def is_loaded(self) -> bool:
        """Whether there are counts to score mail with."""
        return self._server.is_loaded

    @property
    def bound_addresses(self) -> ListenAddresses:
        """Where the listeners listen, once they do."""
        return self._sockets.bound_addresses if self._sockets else {}

    async def run(self, on_ready: Callable[[], object]) -> None:
        """Serve until ``stop``, then drain."""
        async with open_redis(self._settings, self._metrics.store.primary_lost, is_daemon=True) as clients:
            try:
                await self._server.run(clients, self._open_sockets, on_ready)
            finally:
                if self._sockets:
                    self._sockets.remove_files()

    def _open_sockets(self) -> SocketsByName:
        self._sockets = ListenerSockets(self._settings)
        return self._sockets.by_name

    async def apply_settings(self, settings: Settings) -> None:
        """Take over the live sections."""
        self._server.apply_settings(settings)

    async def worker_roles(self) -> Mapping[int, str | None]:
        """Return nothing: there are no workers."""
        return {}
