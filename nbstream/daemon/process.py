"""The daemon as one process: its house, its signals, and the file that it goes by. One daemon per state folder."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from nbstream.assembly import assembly
from nbstream.daemon import addresses, signals
from nbstream.daemon.control import serve_control
from nbstream.daemon.reloader import Reloader
from nbstream.daemon.server import Server
from nbstream.logs import event_fields
from nbstream.metrics.daemon import DaemonMetrics
from nbstream.store.embedded.locks import lock_daemon

if TYPE_CHECKING:
    from nbstream.config import Settings
    from nbstream.daemon.addresses import BoundAddresses, ListenerSockets, UnixSocketInodes

_log = logging.getLogger(__name__)


class SingleProcessDaemon:
    """One process of nbstream; ``run`` returns after a drain."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        metrics = DaemonMetrics.create()
        self._server = Server(settings, metrics)
        self._reloader = Reloader(settings, self._apply_settings, metrics.process)

    def stop(self) -> None:
        """Begin to drain."""
        self._server.stop()

    def reload(self) -> None:
        """Read the configuration anew, soon; whether it was applied, log, metrics and the control door say.

        That works from the first moment of ``run`` to its last: while it waits for Redis, and while it drains.
        """
        self._reloader.request()

    async def run(self, on_ready: Callable[[BoundAddresses], None] | None = None) -> None:
        """Serve until ``stop`` or SIGTERM or SIGINT, then drain; SIGHUP reloads.

        ``on_ready`` is called once mail is accepted. Raises ``ConfigError``, ``StoreIncompatible`` or
        ``CannotStart``.
        """
        signals.handle_signals(self.stop, self.reload)
        where = addresses.listen_addresses(self._settings)
        sockets: ListenerSockets = {}
        names: UnixSocketInodes = {}

        def opened() -> ListenerSockets:
            nonlocal sockets, names
            sockets = addresses.open_sockets(where)
            names = addresses.unix_socket_inodes(where)
            return sockets

        def ready(loaded: bool) -> None:
            bound_addresses = addresses.bound_addresses(where, sockets)
            log_ready(bound_addresses, loaded=loaded)
            if on_ready:
                on_ready(bound_addresses)

        with lock_daemon(self._settings.state_dir):
            async with (
                serve_control(self._reloader, self._settings.state_dir),
                assembly.open_redis(self._settings) as store,
            ):
                try:
                    await self._server.run(store, opened, ready)
                finally:
                    addresses.remove_unix_sockets(names)
                _log.info("stopped")

    async def _apply_settings(self, settings: Settings) -> None:
        self._server.apply_settings(settings)


def log_ready(addresses: BoundAddresses, *, loaded: bool) -> None:
    """Log that mail is taken, and where."""
    _log.log(
        logging.INFO if loaded else logging.WARNING,
        "ready" if loaded else "listening, but not ready: no counts are loaded",
        extra=event_fields(**addresses.as_text()),
    )
