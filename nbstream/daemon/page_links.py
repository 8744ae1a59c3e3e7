"""One-time links to the page, for commands: they load nothing of the page itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbstream.assembly.store import open_running_redis
from nbstream.store.logins import PageSessionStore
from nbstream.store.model.keys import ModelKeys

if TYPE_CHECKING:
    from nbstream.config import Settings


async def create_page_link(settings: Settings, role: str, name: str) -> str:
    """Return the path and query of a new link, for a role of the page; ``name`` is who has it.

    Raises ``ConfigError`` or ``StoreUnavailable`` where Redis cannot be used.
    """
    async with open_running_redis(settings) as clients:
        store = PageSessionStore(clients.client, ModelKeys(settings.model.name))
        return f"/ui/login?link={await store.create_link(role, name)}"
