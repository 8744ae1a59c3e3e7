"""Signed links: what is mailed to a user, and lets whoever opens it act as that user in one matter, for some days.

Rules: nothing of a link is stored, the signature is all. A token is a payload and the first 16 bytes of its
HMAC-SHA256, in base64url. A token is good for one purpose, one address and one message. An altered token, one of
another purpose and one that has expired get the same answer: None. Whoever opens a link changes nothing, since
scanners of mail open links too: the page behind it shows what would be done, and a form with the same token does
it. The key is in Redis, so that all daemons of a model make and take the same links.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import struct
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from nbstream.errors import StoreUnavailable
from nbstream.store.redis_errors import store_errors

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from nbstream.store.model.keys import ModelKeys


KEY_BYTES = 32
_SIGNATURE_BYTES = 16
_VERSION = 1
_HEAD = struct.Struct(">BBQB")  # version, number of the purpose, end in seconds since 1970, length of the id
_MAX_TOKEN_LENGTH = 1000
_CONTEXT = b"nbstream link "  # a key signs one kind of thing


class LinkPurpose(StrEnum):
    """What whoever has a link may do; the value is also the last part of its path."""

    LOGIN = "login"
    RELEASE = "release"
    HAM = "ham"
    DIGEST = "digest"
    """The digest can be switched on and off."""


_NUMBERS = {LinkPurpose.LOGIN: 1, LinkPurpose.RELEASE: 2, LinkPurpose.HAM: 3, LinkPurpose.DIGEST: 4}


class SignedLink(NamedTuple):
    """What a token says.

    ``address`` is the user's, as ``normalize_address`` returns it. ``message_id`` is the id of a message in its
    verdict, empty where the link is about none. It is good until ``ends_at``, in whole seconds since 1970.
    """

    purpose: LinkPurpose
    address: str
    ends_at: int
    message_id: str = ""


class LinkSigner:
    """Signs links, and reads them, with a key of 32 bytes."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def sign(self, link: SignedLink) -> str:
        """Return the token: letters, digits, ``-`` and ``_``."""
        message_id = link.message_id.encode()
        head = _HEAD.pack(_VERSION, _NUMBERS[link.purpose], link.ends_at, len(message_id))
        payload = head + message_id + link.address.encode("utf-8", "surrogateescape")
        return _encode(payload + self._signature(payload))

    def read(self, token: str, purpose: LinkPurpose, now: float) -> SignedLink | None:
        """Return what a token for ``purpose`` says; None where it is not good (any more), whatever the reason."""
        content = _decode(token)
        payload, signature = content[:-_SIGNATURE_BYTES], content[-_SIGNATURE_BYTES:]
        # The payload is looked at only once it is known to be ours; then it has the form that ``sign`` gives it.
        if not hmac.compare_digest(signature, self._signature(payload)):
            return None
        version, number, ends_at, id_length = _HEAD.unpack_from(payload)
        if version != _VERSION or number != _NUMBERS[purpose] or now >= ends_at:
            return None
        message_id, address = payload[_HEAD.size :][:id_length], payload[_HEAD.size + id_length :]
        return SignedLink(purpose, address.decode("utf-8", "surrogateescape"), ends_at, message_id.decode())

    def url(self, base_url: str, link: SignedLink) -> str:
        """Return the address of the page behind a link; ``base_url`` is that of the HTTP listener."""
        return f"{base_url.rstrip('/')}{link_path(link.purpose)}?link={self.sign(link)}"

    def _signature(self, payload: bytes) -> bytes:
        return hmac.digest(self._key, _CONTEXT + payload, hashlib.sha256)[:_SIGNATURE_BYTES]


def link_path(purpose: LinkPurpose) -> str:
    """Return the path of the page behind the links of a purpose."""
    return f"/my/link/{purpose}"


def _encode(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def _decode(token: str) -> bytes:
    """Return the bytes of a token; none where it is not in the one form that ``_encode`` gives them."""
    if len(token) > _MAX_TOKEN_LENGTH or not token.isascii():
        return b""
    try:
        content = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
    except ValueError:
        return b""
    return content if _encode(content) == token else b""  # the last character may have bits that no byte has


class LinkKeys:
    """The key of a model's links in Redis, which the first one who needs it makes.

    Without the key in Redis all links end: whoever deletes it takes back all that were mailed.
    """

    def __init__(self, client: Redis, keys: ModelKeys) -> None:
        self._client = client
        self._name = keys.link_key

    async def signer(self) -> LinkSigner:
        """Return what signs and reads links now. Raises ``StoreUnavailable``."""
        with store_errors():
            key = await self._client.get(self._name)
            if key is None:
                await self._client.set(self._name, secrets.token_bytes(KEY_BYTES), nx=True)
                key = await self._client.get(self._name)  # another process may have been faster
        if not isinstance(key, bytes) or len(key) != KEY_BYTES:
            raise StoreUnavailable("Redis: the key of the signed links has another form")
        return LinkSigner(key)
