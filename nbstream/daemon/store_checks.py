"""The checks of Redis and of the stored model when the daemon starts."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from nbstream.errors import StoreUnavailable
from nbstream.store.connection import durability_risks
from nbstream.store.redis_errors import readable_replies

if TYPE_CHECKING:
    from nbstream.assembly.parts import ServerParts

_log = logging.getLogger(__name__)


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


async def warn_about_durability(parts: ServerParts) -> None:
    """Log what an external server would lose, as soon as it can be reached; the embedded one loses nothing."""
    if parts.clients.embedded:
        return
    await parts.mirror.loaded.wait()
    try:
        for risk in await durability_risks(parts.clients.client):
            _log.warning("%s", risk)
    except StoreUnavailable as error:
        _log.warning("Redis was not asked whether it persists: %s", error)
