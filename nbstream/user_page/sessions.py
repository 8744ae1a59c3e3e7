"""Which user sends a request: his session, by the cookie.

Rules: a session is a key of Redis, and each request asks for it; without Redis nobody has one. It is that of an
address, which alone decides what is shown. It ends after twelve hours, by the logout, and where the settings let
the address in no more. Nothing that an administrator has is a session here, and the reverse.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from nbstream.errors import StoreUnavailable
from nbstream.listeners.http.access import Role
from nbstream.page.login import csrf_token
from nbstream.page.requests import PageArea, Session
from nbstream.store.logins import PageSessionStore
from nbstream.users.links import LinkPurpose, link_path

if TYPE_CHECKING:
    from collections.abc import Callable

    from redis.asyncio import Redis

    from nbstream.store.logins import LoginKeys

PREFIX = "/my/"

USER_AREA = PageArea(
    PREFIX, "nbstream_my_session", languages=("en", "de"), mailed_login=link_path(LinkPurpose.LOGIN)
)
"""The page of users."""

_ROLE = "user"
_ASK_SECONDS = 5.0


class UserSessions:
    """The sessions of users; ``address_of`` returns the address of a user who may log in, by his name."""

    def __init__(self, client: Redis, keys: LoginKeys, address_of: Callable[[str], str | None]) -> None:
        self._store = PageSessionStore(client, keys)
        self._address_of = address_of

    async def begin(self, address: str) -> str:
        """Return the token of a new session. Raises ``StoreUnavailable``."""
        return await self._store.create_session(_ROLE, address)

    async def find(self, token: str) -> Session | None:
        """Return the session, whose name is the address; None where there is none. Raises ``StoreUnavailable``."""
        try:
            async with asyncio.timeout(_ASK_SECONDS):
                login = await self._store.find_session(token)
        except TimeoutError as error:
            raise StoreUnavailable("the sessions of users cannot be looked up") from error
        if login is None or login.role != _ROLE or self._address_of(login.name) != login.name:
            return None
        return Session(Role.TEACH, login.name, csrf_token(token))

    async def end(self, token: str) -> None:
        """End the session, in all processes. Raises ``StoreUnavailable``."""
        await self._store.end_session(token)
