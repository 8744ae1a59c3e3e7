"""Users log in with the password of their mailbox, or with a signed link that was mailed to them.

Rules: a wrong password, a user who does not exist and one who may not log in get one answer. Wrong passwords are
limited by the client and by the user, however the name is spelled; whoever guesses keeps no user out of a client
that they have logged in from lately. There is no limit for all clients of a proxy together: strangers would reach
it for everybody, and no user has more to fear from many clients than from one. An attempt counts as wrong until
the server has said that it is right: of many at the same time no more pass.
"""

from __future__ import annotations

import hashlib
import logging
import re
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nbstream.mail.addresses import parse_address
from nbstream.server.http.access import FailureCounts, TooManyFailures
from nbstream.store.logins import USER_ROLE
from nbstream.web.areas import Identity
from nbstream.web.requests import PageRefused
from nbstream.web.users.links import LinkPurpose
from nbstream.web.users.login_servers import MAX_NAME_LENGTH, MAX_PASSWORD_LENGTH, LoginUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from nbstream.server.connections import Peer
    from nbstream.store.logins import AttemptCounts
    from nbstream.web.users.links import LinkKeys
    from nbstream.web.users.login_servers import LoginServer

_MAX_FAILURES = 10  # a minute, of one client and with the name of one user
_MAX_WAITING = 50  # logins that wait for the server

_log = logging.getLogger(__name__)


@dataclass(eq=False, kw_only=True, slots=True)
class MailboxAuthenticator:
    """Asks ``server``, which is None where users log in by links alone. See ``Authenticator``.

    ``address_of`` returns the address of a user who may log in, by their name.
    """

    server: LoginServer | None
    links: LinkKeys
    counts: AttemptCounts
    address_of: Callable[[str], str | None]
    _failures: FailureCounts = field(init=False)
    _waiting: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._failures = FailureCounts(self.counts)

    @property
    def has_password(self) -> bool:
        """Whether there is a server that knows passwords."""
        return self.server is not None

    async def identify(self, form: Mapping[str, str], client: Peer, sources: Mapping[str, int]) -> Identity:
        """Return the address of the user. See ``Authenticator``."""
        if "link" in form:
            return Identity(USER_ROLE, await self._user_of_link(form["link"]))
        name, password = form.get("user", "").strip(), form.get("password", "")
        limits = dict.fromkeys(
            (f"mailbox {next(iter(sources))}", f"user {self._name_digest(name)}"), _MAX_FAILURES
        )  # without that of a proxy
        try:
            self._failures.require_room(limits)
            self._failures.add(limits)  # until it is known to be right
            user = await self._ask_server(name, password, client, limits)
            address = self.address_of(user) if user is not None else None
            if address is None:
                await self._failures.share(limits)
                raise PageRefused(403, "login_wrong")
        except TooManyFailures:
            raise PageRefused(429, "login_too_many") from None
        self._failures.take_back(limits)
        self._failures.succeed(limits)
        return Identity(USER_ROLE, address)

    async def _user_of_link(self, token: str) -> str:
        link = (await self.links.signer()).read(token, LinkPurpose.LOGIN, time.time())
        if link is None or self.address_of(link.address) != link.address:
            raise PageRefused(403, "login_link_wrong")
        return link.address

    def _name_digest(self, name: str) -> str:
        """Return what stands for all spellings of the name of a user.

        A name that is no address here may still be one to the server, which may ignore its domain or detail.
        """
        counted = self.address_of(name) or re.split("[+@]", parse_address(name)[0])[0]
        return hashlib.blake2b(counted.encode("utf-8", "replace"), digest_size=16).hexdigest()

    async def _ask_server(self, name: str, password: str, client: Peer, limits: Mapping[str, int]) -> str | None:
        """Return the name of the user, None for a wrong password. Raises ``PageRefused`` where nobody knows."""
        server = self.server
        is_possible = 0 < len(name) <= MAX_NAME_LENGTH and 0 < len(password) <= MAX_PASSWORD_LENGTH
        if server is None or not is_possible or not (name + password).isprintable():
            return None
        if self._waiting >= _MAX_WAITING:
            self._failures.take_back(limits)
            raise PageRefused(503, "login_away")
        self._waiting += 1
        try:
            return await server.find_user(name, password, client.address or None)
        except LoginUnavailable as error:
            self._failures.take_back(limits)
            _log.error("page: no user can log in: %s", error)
            raise PageRefused(503, "login_away") from error
        finally:
            self._waiting -= 1
