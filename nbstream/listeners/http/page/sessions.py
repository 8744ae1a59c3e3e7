"""The sessions of the page: who sends a request, by the cookie.

Rules: each request asks Redis, so that a logout ends a session in all processes at once. Where Redis is away, a
session that this process has confirmed within the last minutes goes on, for reading alone. A session that began
with a password ends where that password no longer gives its role. What a form or a cookie
must prove is an HMAC with the token of the session as its key.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbstream.errors import StoreUnavailable
from nbstream.listeners.http.access import is_equal
from nbstream.listeners.http.page.requests import Role, Session
from nbstream.store.logins import password_proof, token_hash

if TYPE_CHECKING:
    from nbstream.listeners.http.access import Passwords
    from nbstream.store.logins import PageSessionStore, StoredLogin

_ASK_SECONDS = 1.0  # then what is known is shown: a page should not wait as long as a lesson may
_TRUSTED_SECONDS = 600.0
_MAX_KNOWN = 100


@dataclass(frozen=True, slots=True)
class _KnownSession:
    """A session that was confirmed at ``confirmed_at``, by the monotonic clock."""

    login: StoredLogin
    confirmed_at: float

    @property
    def is_trusted(self) -> bool:
        return time.monotonic() - self.confirmed_at < _TRUSTED_SECONDS and time.time() < self.login.ends_at


class PageSessions:
    """The sessions in Redis, and those that this process has seen lately; ``passwords`` are those of now."""

    def __init__(self, store: PageSessionStore, passwords: Passwords) -> None:
        self._store = store
        self._passwords = passwords
        self._known: OrderedDict[str, _KnownSession] = OrderedDict()

    async def find(self, token: str) -> Session | None:
        """Return the session, None where there is none; raises ``StoreUnavailable`` where nobody knows."""
        key = token_hash(token)
        try:
            async with asyncio.timeout(_ASK_SECONDS):
                login = await self._store.find_session(token)
        except (StoreUnavailable, TimeoutError) as error:
            known = self._known.get(key)
            if known is None or not known.is_trusted:
                raise StoreUnavailable("the sessions of the page cannot be looked up") from error
            return self._make_session(known.login, token, is_verified=False)
        self._known.pop(key, None)
        if login is None:
            return None
        self._known[key] = _KnownSession(login, time.monotonic())
        if len(self._known) > _MAX_KNOWN:
            self._known.popitem(last=False)
        return self._make_session(login, token)

    async def end(self, token: str) -> None:
        """End the session, in all processes. Raises ``StoreUnavailable``."""
        await self._store.end_session(token)
        self._known.pop(token_hash(token), None)

    def _make_session(self, login: StoredLogin, token: str, *, is_verified: bool = True) -> Session | None:
        try:
            role = Role(login.role)
        except ValueError:  # one of another version
            return None
        if login.password_proof:
            password = self._passwords.of_role(role)
            if password is None or not is_equal(login.password_proof, password_proof(token, password)):
                return None
        return Session(role, login.name, csrf_token(token), is_verified)


def csrf_token(token: str) -> str:
    """Return what each form of the session proves itself with."""
    return _proof(token, b"form")


def seal(token: str, text: str) -> str:
    """Return ``text`` as the value of a cookie that only this session can have made.

    A reply of another server may be in it: what is no character becomes ``?``.
    """
    encoded = base64.urlsafe_b64encode(text.encode("utf-8", "replace")).decode()
    return f"{encoded}.{_proof(token, b'cookie ' + encoded.encode())}"


def unseal(token: str, sealed: str) -> str:
    """Return the text that ``seal`` sealed for this session; empty where it did not."""
    encoded, _, proof = sealed.partition(".")
    expected = _proof(token, b"cookie " + encoded.encode("utf-8", "surrogateescape"))
    if not is_equal(proof, expected):
        return ""
    return base64.urlsafe_b64decode(encoded).decode()


def _proof(token: str, what: bytes) -> str:
    return hmac.new(token.encode("utf-8", "surrogateescape"), what, hashlib.sha256).hexdigest()
