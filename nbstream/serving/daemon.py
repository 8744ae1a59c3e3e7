"""The daemon as one process: its house, its signals, and the file that it goes by. One daemon per state folder."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from nbstream import assembly
from nbstream.metrics import Metrics
from nbstream.reloading import Reloader
from nbstream.serving import places, signals
from nbstream.serving.control import reloading
from nbstream.serving.house import House
from nbstream.store.locks import lock_daemon

if TYPE_CHECKING:
    from nbstream.config import Settings
    from nbstream.serving.places import Addresses, Names, Sockets

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
        where = places.places(self._settings)
        sockets: Sockets = {}
        names: Names = {}

        def opened() -> Sockets:
            nonlocal sockets, names
            sockets = places.opened(where)
            names = places.names(where)
            return sockets

        def ready(loaded: bool) -> None:
            addresses = places.addresses(where, sockets)
            say_ready(addresses, loaded=loaded)
            if on_ready:
                on_ready(addresses)

        with lock_daemon(self._settings.state_dir):
            async with (
                reloading(self._reloader, self._settings.state_dir),
                assembly.store(self._settings) as store,
            ):
                try:
                    await self._house.run(store, opened, ready)
                finally:
                    places.remove(names)
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
