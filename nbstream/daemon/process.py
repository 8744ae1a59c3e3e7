"""The daemon as one process: its server, its signals and its configuration file. One daemon per state folder."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from nbstream import __version__
from nbstream.assembly.store import open_redis
from nbstream.daemon import addresses, signals
from nbstream.daemon.control import serve_control
from nbstream.daemon.http import HTTP
from nbstream.daemon.metrics import DaemonMetrics
from nbstream.daemon.reloader import Reloader
from nbstream.daemon.server import Server
from nbstream.daemon.service_manager import ServiceManager, serving_status
from nbstream.engine.choice import choose_engine
from nbstream.logs import event_fields
from nbstream.store.embedded.locks import lock_daemon

if TYPE_CHECKING:
    from nbstream.config import Settings
    from nbstream.daemon.addresses import ListenAddresses, ListenerSockets, UnixSocketInodes
    from nbstream.engine.choice import Engine

_log = logging.getLogger(__name__)


class SingleProcessDaemon:
    """One process of nbstream; ``run`` returns after a drain.

    Raises ``ConfigError`` where the engine that the settings ask for does not fit.
    """

    def __init__(self, settings: Settings, service_manager: ServiceManager | None = None) -> None:
        self._settings = settings
        self._service_manager = service_manager or ServiceManager()
        self._engine = choose_engine(settings.engine)
        self._metrics = DaemonMetrics.create(self._engine)
        self._server = Server(settings, self._engine, self._metrics)
        self._reloader = Reloader(
            settings, self._apply_settings, self._metrics.process.reloaded, self._service_manager.reloading
        )

    def stop(self) -> None:
        """Begin to drain."""
        self._service_manager.stopping()
        self._server.stop()

    def reload(self) -> None:
        """Read the configuration anew, soon; log, metrics and the control socket say whether it was applied.

        That works from the first moment of ``run`` to its last: while it waits for Redis, and while it drains.
        """
        self._reloader.request()

    async def run(self, on_ready: Callable[[ListenAddresses], None] | None = None) -> None:
        """Serve until ``stop`` or SIGTERM or SIGINT, then drain; SIGHUP reloads.

        ``on_ready`` is called once mail is accepted. Raises ``ConfigError``, ``StoreIncompatible`` or
        ``CannotStart``.
        """
        signals.handle_signals(self.stop, self.reload)
        log_start(self._engine)
        listen_addresses = addresses.listen_addresses(self._settings)
        sockets: ListenerSockets = {}
        inodes: UnixSocketInodes = {}
        bound_addresses: ListenAddresses = {}

        def open_sockets() -> ListenerSockets:
            nonlocal sockets, inodes
            sockets = addresses.open_sockets(listen_addresses)
            inodes = addresses.unix_socket_inodes(listen_addresses)
            return sockets

        def ready(loaded: bool) -> None:
            nonlocal bound_addresses
            bound_addresses = addresses.bound_addresses(listen_addresses, sockets)
            log_ready(bound_addresses, loaded=loaded)
            self._service_manager.ready(serving_status(loaded=loaded))
            if on_ready:
                on_ready(bound_addresses)

        with lock_daemon(self._settings.state_dir):
            async with (
                self._service_manager.watched(lambda: True, self._serving_status),
                serve_control(
                    self._reloader,
                    self._settings.state_dir,
                    self._engine,
                    lambda: bound_addresses.get(HTTP.name),
                ),
                open_redis(self._settings, self._metrics.store.primary_lost) as clients,
            ):
                try:
                    await self._server.run(clients, open_sockets, ready)
                finally:
                    addresses.remove_unix_sockets(inodes)
                _log.info("stopped")

    def _serving_status(self) -> str:
        return serving_status(loaded=self._server.is_loaded)

    async def _apply_settings(self, settings: Settings) -> Sequence[str]:
        return self._server.apply_settings(settings)


def log_start(engine: Engine) -> None:
    """Log which engine runs, and why."""
    _log.info("starting nbstream %s", __version__, extra=event_fields(engine=engine.name, because=engine.reason))


def log_ready(bound_addresses: ListenAddresses, *, loaded: bool) -> None:
    """Log that mail is accepted, and where."""
    _log.log(
        logging.INFO if loaded else logging.WARNING,
        "ready" if loaded else "listening, but not ready: no counts are loaded",
        extra=event_fields(**{name: str(address) for name, address in bound_addresses.items()}),
    )
