"""The sessions of administrators and of users: who sends a request, by the cookie.

Rules: each request asks Redis, so that a logout ends a session in all processes at once; without Redis nobody has
one. A session that began with a password of administrators ends where that password no longer gives its role, and
that of a user where the settings let their address in no more. A session of one scope is none in the other. What a
form or a cookie must prove is an HMAC with the token of the session as its key.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
from collections.abc import Callable
from typing import TYPE_CHECKING

from nbstream.errors import StoreUnavailable
from nbstream.server.http.access import Role, is_equal
from nbstream.store.logins import USER_ROLE, is_token, password_proof
from nbstream.web.requests import Session
from nbstream.web.responses import read_cookie

if TYPE_CHECKING:
    from aiohttp import web

    from nbstream.server.http.access import Passwords
    from nbstream.store.logins import PageSessionStore, StoredLogin
    from nbstream.web.areas import Area

_ASK_SECONDS = 1.0  # a page should not wait as long as a lesson may


def session_token(request: web.BaseRequest, cookie: str) -> str:
    """Return the token in the cookie of that name of a request; empty where it has none."""
    token = read_cookie(request, cookie)
    return token if is_token(token) else ""


class Sessions:
    """The sessions in ``store``.

    ``passwords`` are those of administrators now, and ``address_of`` returns the address of a user who may log in
    now, by their name.
    """

    def __init__(
        self,
        store: PageSessionStore,
        passwords: Passwords,
        address_of: Callable[[str], str | None] = lambda _: None,
    ) -> None:
        self.store = store
        self._passwords = passwords
        self._address_of = address_of

    async def find(self, token: str, area: Area) -> Session | None:
        """Return the session, None where there is none; raises ``StoreUnavailable`` where nobody knows."""
        try:
            async with asyncio.timeout(_ASK_SECONDS):
                login = await self.store.find_session(token)
        except TimeoutError as error:
            raise StoreUnavailable("the sessions of the page cannot be read") from error
        return self._make_session(login, token, area) if login else None

    def _make_session(self, login: StoredLogin, token: str, area: Area) -> Session | None:
        if login.role not in area.roles:
            return None
        if login.role == USER_ROLE:
            role, is_valid = Role.TEACH, self._address_of(login.name) == login.name
        else:
            role = Role(login.role)
            password = self._passwords.of_role(role)
            is_valid = not login.password_proof or (
                password is not None and is_equal(login.password_proof, password_proof(token, password))
            )
        return Session(role, login.name, csrf_token(token)) if is_valid else None


def csrf_token(token: str) -> str:
    """Return what each form of the session proves itself with."""
    return _proof(token, b"form")


def sign(token: str, text: str) -> str:
    """Return ``text`` as the value of a cookie that only this session can have made.

    A reply of another server may be in it: what is no character becomes ``?``.
    """
    encoded = base64.urlsafe_b64encode(text.encode("utf-8", "replace")).decode()
    return f"{encoded}.{_proof(token, b'cookie ' + encoded.encode())}"


def unsign(token: str, signed: str) -> str:
    """Return the text that ``sign`` signed for this session; empty where it did not."""
    encoded, _, proof = signed.partition(".")
    expected = _proof(token, b"cookie " + encoded.encode("utf-8", "surrogateescape"))
    if not is_equal(proof, expected):
        return ""
    return base64.urlsafe_b64decode(encoded).decode()


def _proof(token: str, what: bytes) -> str:
    return hmac.new(token.encode("utf-8", "surrogateescape"), what, hashlib.sha256).hexdigest()
