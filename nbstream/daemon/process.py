"""The daemon as one process: its house, its signals, and the file that it goes by. One daemon per state folder."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from nbstream.assembly import assembly
from nbstream.daemon import addresses, signals
from nbstream.daemon.control import reloading
from nbstream.daemon.reloader import Reloader
from nbstream.daemon.server import House
from nbstream.metrics.metrics import Metrics
from nbstream.store.embedded.locks import lock_daemon

if TYPE_CHECKING:
    from nbstream.config import Settings
    from nbstream.daemon.addresses import Addresses, Names, Sockets

_log = logging.getLogger(__name__)


class Daemon:
    """One process of nbstream; ``run`` returns after a drain."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._metrics = Metrics()
        self._house = House(settings, self._metrics)
        self._reloader = Reloader(settings, self._adopt, self._metrics)

    def stop(self) -> None:
        """Begin to drain."""
        self._house.stop()

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
        signals.handle(self.stop, self.reload)
        where = addresses.places(self._settings)
        sockets: Sockets = {}
        names: Names = {}

        def opened() -> Sockets:
            nonlocal sockets, names
            sockets = addresses.opened(where)
            names = addresses.names(where)
            return sockets

        def ready(loaded: bool) -> None:
            bound_addresses = addresses.addresses(where, sockets)
            say_ready(bound_addresses, loaded=loaded)
            if on_ready:
                on_ready(bound_addresses)

        with lock_daemon(self._settings.state_dir):
            async with (
                reloading(self._reloader, self._settings.state_dir),
                assembly.store(self._settings) as store,
            ):
                try:
                    await self._house.run(store, opened, ready)
                finally:
                    addresses.remove(names)
                _log.info("stopped")

    async def _adopt(self, settings: Settings) -> None:
        self._house.adopt(settings)


def say_ready(addresses: Addresses, *, loaded: bool) -> None:
    """Log that mail is taken, and where."""
    _log.log(
        logging.INFO if loaded else logging.WARNING,
        "ready" if loaded else "listening, but not ready: no counts are loaded",
        extra={"fields": addresses.told()},
    )
