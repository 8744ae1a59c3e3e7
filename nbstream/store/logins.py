"""Who may log in to the web interface, and who has: one-time links, sessions, and how often a password was tried.

Rules: all processes see the same. A link and a session are 32 random bytes, which only their owner knows; Redis
has their SHA-256. A link is used once and for ten minutes, a session ends after twelve hours whatever is done with
it. All of them expire by themselves. A session that began with a password can be compared with the passwords of
now; nobody can try passwords on what Redis has of it, since that needs the token too.

A count of attempts begins with the first one, and ends ``COUNTED_SECONDS`` later.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import secrets
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from nbstream.store.redis_errors import readable_replies, store_errors

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from redis.asyncio import Redis

    from nbstream.store.model.keys import ModelKeys


LINK_SECONDS = 600
SESSION_SECONDS = 12 * 3600

USER_ROLE = "user"
"""The role of a user, who sees the mail of one address; the others are those of administrators."""

_TOKEN = re.compile(r"[A-Za-z0-9_-]{43}")


class StoredLogin(NamedTuple):
    """What a link or a session gives: a role, and a name for the history, until ``ends_at`` (Unix time).

    The name of a user (``USER_ROLE``) is their address. ``password_proof`` is that of the administrators' password
    that began the session, empty where none did.
    """

    role: str
    name: str
    ends_at: float
    password_proof: str = ""


class PageSessionStore:
    """The links and sessions of one model in Redis; all methods raise ``StoreUnavailable``."""

    def __init__(self, client: Redis, keys: ModelKeys) -> None:
        self._client = client
        self._keys = keys

    async def create_link(self, role: str, name: str) -> str:
        """Return the token of a new link."""
        token = secrets.token_urlsafe(32)
        await self._store(self._keys.login_link(token_hash(token)), LINK_SECONDS, role=role, name=name)
        return token

    async def use_link(self, token: str) -> StoredLogin | None:
        """Return what the link gives, and forget it; None where it is used, has expired, or never was."""
        if not is_token(token):
            return None
        with store_errors(), readable_replies():
            return read_login(await self._client.getdel(self._keys.login_link(token_hash(token))))

    async def create_session(self, role: str, name: str, password: str | None = None) -> str:
        """Return the token of a new session; ``password`` is the one that it begins with, None for a link."""
        token = secrets.token_urlsafe(32)
        proof = "" if password is None else password_proof(token, password)
        key = self._keys.login_session(token_hash(token))
        await self._store(key, SESSION_SECONDS, role=role, name=name, password_proof=proof)
        return token

    async def find_session(self, token: str) -> StoredLogin | None:
        """Return the session, or None where it has ended or never was."""
        if not is_token(token):
            return None
        with store_errors():
            return read_login(await self._client.get(self._keys.login_session(token_hash(token))))

    async def end_session(self, token: str) -> None:
        """End the session for all processes."""
        with store_errors():
            await self._client.delete(self._keys.login_session(token_hash(token)))

    async def _store(self, key: str, seconds: int, **texts: str) -> None:
        value = json.dumps({**texts, "ends_at": time.time() + seconds})
        with store_errors():
            await self._client.set(key, value, ex=seconds)


def is_token(text: str) -> bool:
    """Return whether this text has the form of the token of a link or a session."""
    return _TOKEN.fullmatch(text) is not None


def token_hash(token: str) -> str:
    """Return the SHA-256 of a token, in hexadecimal digits."""
    return hashlib.sha256(token.encode()).hexdigest()


def password_proof(token: str, password: str) -> str:
    """Return what proves to whoever has the token that a session began with this password."""
    return hmac.new(token.encode(), b"password " + password.encode(), hashlib.sha256).hexdigest()


def read_login(stored: Any) -> StoredLogin | None:
    """Return what is stored; None for nothing, and for what another program wrote."""
    if stored is None:
        return None
    try:
        values = json.loads(stored)
        proof = str(values.get("password_proof", ""))
        return StoredLogin(str(values["role"]), str(values["name"]), float(values["ends_at"]), proof)
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError):
        return None


COUNTED_SECONDS = 60


@dataclass(frozen=True, slots=True)
class AttemptCount:
    """How many attempts there have been, and in how many seconds they are forgotten."""

    count: int
    seconds: float


class AttemptCounts:
    """The counts of one model, by what they are counted for (a text of bounded length)."""

    def __init__(self, client: Redis, keys: ModelKeys) -> None:
        self._client = client
        self._keys = keys

    async def add(self, sources: Iterable[str]) -> Sequence[AttemptCount]:
        """Count one more attempt for each of these; return their counts. Raises ``StoreUnavailable``."""
        with store_errors(), readable_replies():
            async with self._client.pipeline(transaction=True) as pipeline:
                for source in sources:
                    key = self._keys.login_attempts(source)
                    pipeline.set(key, 0, ex=COUNTED_SECONDS, nx=True)
                    pipeline.incr(key)
                    pipeline.pttl(key)
                replies = await pipeline.execute()
            return [
                AttemptCount(int(count), int(milliseconds) / 1000)
                for count, milliseconds in zip(replies[1::3], replies[2::3], strict=True)
            ]
