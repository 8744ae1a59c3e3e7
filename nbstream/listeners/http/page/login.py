"""Logging in: with a one-time link or with a password of the listener.

Rules: no peer needs less than that, because a local user is no administrator. Ten failed passwords a minute and
client are answered, and no more. Links are not limited: nobody can guess one, and so nobody can lock out whoever
has one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nbstream.listeners.http.page.requests import PageRefused, Role
from nbstream.listeners.http.page.sessions import is_equal
from nbstream.listeners.http.page.texts import text

if TYPE_CHECKING:
    from nbstream.store.page_sessions import PageSessionStore, StoredLogin

_MAX_NAME_LENGTH = 100


@dataclass(frozen=True, slots=True)
class PagePasswords:
    """The passwords of the listener, None where there is none.

    ``teach`` gives both roles; without it, ``read`` does.
    """

    read: str | None = field(default=None, repr=False)
    teach: str | None = field(default=None, repr=False)

    @property
    def any(self) -> bool:
        """Whether there is a password to log in with."""
        return self.read is not None or self.teach is not None

    def role_of(self, offered: str) -> Role | None:
        """Return the role that a password gives; all passwords are compared, even after a match."""
        is_read = self.read is not None and is_equal(offered, self.read)
        is_teach = self.teach is not None and is_equal(offered, self.teach)
        if is_teach or (is_read and self.teach is None):
            return Role.TEACH
        return Role.READ if is_read else None


class PageLogin:
    """Begins sessions; its methods return the token of the new one.

    They raise ``PageRefused`` where nobody may log in with that, and ``StoreUnavailable``.
    """

    def __init__(self, store: PageSessionStore, passwords: PagePasswords) -> None:
        self._store = store
        self.passwords = passwords

    async def with_link(self, link: str) -> str:
        """Begin a session with a one-time link, which is used up."""
        login = await self._store.use_link(link)
        if login is None:
            raise PageRefused(403, text("login.link_refused"))
        return await self._begin(login)

    async def with_password(self, password: str, name: str, sources: Mapping[str, int]) -> str:
        """Begin a session with a password.

        ``name`` says who it is, as the history will. ``sources`` are the limits of ``failure_sources``.
        """
        # Each attempt counts as failed until it has not: otherwise attempts at the same time would all be let in.
        counts = {source: await self._store.count_failure(source) for source in sources}
        if any(count > sources[source] for source, count in counts.items()):
            raise PageRefused(429, text("login.too_many"))
        role = self.passwords.role_of(password)
        if role is None:
            raise PageRefused(403, text("login.password_refused"))
        for source in sources:
            await self._store.forget_failure(source)
        return await self._store.create_session(role, f"page {name}")

    async def _begin(self, login: StoredLogin) -> str:
        return await self._store.create_session(login.role, f"page {login.name}")


def login_name(offered: str, client: str) -> str:
    """Return the name of who logs in with a password: what was typed as one word, else the address of the client.

    A name of one word cannot be mistaken for that of a user of this machine, which ``nbstream ui`` gives.
    """
    words = "".join(c if c.isprintable() else " " for c in offered).split()
    return "-".join(words)[:_MAX_NAME_LENGTH] or client
