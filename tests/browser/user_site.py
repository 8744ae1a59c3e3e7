"""A daemon with the self-service page, and users who have logged in."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from nbstream.daemon import config
from nbstream.daemon.assembly.store import open_running_redis
from nbstream.store.logins import USER_ROLE, PageSessionStore
from nbstream.store.model.keys import ModelKeys
from nbstream.web.areas import USER_AREA
from nbstream.web.users.links import LinkKeys, LinkPurpose, SignedLink
from tests.browser.site import Site, run_aside

if TYPE_CHECKING:
    from tests.browser.visitor import Visitor

SETTINGS = {
    "actions": {"spam": "quarantine"},
    "user_page": {"users": ["*@example.net"], "login": "dovecot:/nonexistent/auth-client"},
}


def log_user_in(site: Site, visitor: Visitor, address: str) -> None:
    """Give a visitor the session of the user with this address, as the login stores it."""

    async def begin() -> str:
        settings = config.load_settings(site.config)
        async with open_running_redis(settings) as clients:
            store = PageSessionStore(clients.client, ModelKeys(settings.model.name))
            return await store.create_session(USER_ROLE, address)

    visitor.use_session(site.origin, run_aside(begin()), USER_AREA)


def mailed_link(site: Site, address: str) -> str:
    """Return the path of a link that logs the user with this address in."""

    async def sign() -> str:
        settings = config.load_settings(site.config)
        async with open_running_redis(settings) as clients:
            signer = await LinkKeys(clients.client, ModelKeys(settings.model.name)).signer()
            return signer.url("", SignedLink(LinkPurpose.LOGIN, address, int(time.time()) + 600))

    link: str = run_aside(sign())
    return link
