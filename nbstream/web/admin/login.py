"""Administrators log in with a one-time link, which is used up, or with a password of the listener.

Rules: wrong passwords are limited as at the APIs. Links are not: nobody can guess one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from nbstream.server.http.access import TooManyFailures
from nbstream.web.areas import Identity
from nbstream.web.requests import PageRefused

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nbstream.server.connections import Peer
    from nbstream.server.http.access import PasswordCheck
    from nbstream.store.logins import PageSessionStore

_MAX_NAME_LENGTH = 100


class AdminAuthenticator(NamedTuple):
    """Uses up links, and compares passwords. See ``Authenticator``."""

    store: PageSessionStore
    passwords: PasswordCheck

    @property
    def has_password(self) -> bool:
        """Whether the listener has a password."""
        return self.passwords.passwords.any

    async def identify(self, form: Mapping[str, str], client: Peer, sources: Mapping[str, int]) -> Identity:
        """Return the role of a link or of a password, and who has it. See ``Authenticator``."""
        if "link" in form:
            login = await self.store.use_link(form["link"])
            if login is None:
                raise PageRefused(403, "login_link_used")
            return Identity(login.role, f"page {login.name}")
        password = form.get("password", "")
        try:
            role = await self.passwords.role_of([password], sources)
        except TooManyFailures:
            raise PageRefused(429, "login_too_many") from None
        if role is None:
            raise PageRefused(403, "login_password_wrong")
        return Identity(role, f"page {login_name(form.get('name', ''), str(client))}", password)


def login_name(offered: str, client: str) -> str:
    """Return the name of who logs in with a password: what was typed as one word, else the address of the client.

    A name of one word cannot be mistaken for that of a user of this machine, which ``nbstream ui`` gives.
    """
    words = "".join(c if c.isprintable() else " " for c in offered[: 10 * _MAX_NAME_LENGTH]).split()
    return "-".join(words)[:_MAX_NAME_LENGTH] or client
