"""Logging in: with a one-time link or with a password of the listener.

Rules: no peer needs less than that, because a local user is no administrator. Wrong passwords are limited as at
the APIs. Whoever knows the password may begin sixty sessions a minute, since each stays in Redis for hours. Links
are not limited: nobody can guess one, and so nobody can lock out whoever has one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from nbstream.listeners.http.access import TooManyFailures
from nbstream.listeners.http.page.requests import PageRefused

if TYPE_CHECKING:
    from nbstream.listeners.http.access import PasswordCheck
    from nbstream.listeners.peers import Network
    from nbstream.store.logins import AttemptCounts, PageSessionStore, StoredLogin

_MAX_NAME_LENGTH = 100
_MAX_LOGINS = 60  # a minute and client
_TOO_MANY = "There were too many attempts. Please wait for a minute."


class PageLogin:
    """Begins sessions; its methods return the token of the new one.

    They raise ``PageRefused`` where nobody may log in with that, and ``StoreUnavailable``. ``allow_from`` are the
    networks whose peers may name the clients that they ask for.
    """

    def __init__(
        self,
        store: PageSessionStore,
        passwords: PasswordCheck,
        counts: AttemptCounts,
        allow_from: Sequence[Network] = (),
    ) -> None:
        self._store = store
        self.allow_from = allow_from
        self._passwords = passwords
        self._counts = counts

    @property
    def has_password(self) -> bool:
        """Whether there is a password to log in with."""
        return self._passwords.passwords.any

    async def with_link(self, link: str) -> str:
        """Begin a session with a one-time link, which is used up."""
        login = await self._store.use_link(link)
        if login is None:
            raise PageRefused(403, "This link was used before, or it is older than ten minutes.")
        return await self._begin(login)

    async def with_password(self, password: str, name: str, sources: Mapping[str, int]) -> str:
        """Begin a session with a password.

        ``name`` says who it is, as the history will. ``sources`` are the limits of ``failure_sources``, that of
        the client first.
        """
        try:
            role = await self._passwords.role_of([password], sources)
        except TooManyFailures:
            raise PageRefused(429, _TOO_MANY) from None
        if role is None:
            raise PageRefused(403, "This is not the password.")
        (logins,) = await self._counts.add([f"{next(iter(sources))} logins"])
        if logins.count > _MAX_LOGINS:
            raise PageRefused(429, _TOO_MANY)
        return await self._store.create_session(role, f"page {name}", password)

    async def _begin(self, login: StoredLogin) -> str:
        return await self._store.create_session(login.role, f"page {login.name}")


def login_name(offered: str, client: str) -> str:
    """Return the name of who logs in with a password: what was typed as one word, else the address of the client.

    A name of one word cannot be mistaken for that of a user of this machine, which ``nbstream ui`` gives.
    """
    words = "".join(c if c.isprintable() else " " for c in offered[: 10 * _MAX_NAME_LENGTH]).split()
    return "-".join(words)[:_MAX_NAME_LENGTH] or client
