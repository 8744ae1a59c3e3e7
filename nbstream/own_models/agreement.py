"""What users teach everybody: a lesson of the common model where enough users call the same mailing the same.

Rules: each user has one vote on a mailing, the last thing that he said of a copy of it. Fewer than ``min_users``
users decide nothing: neither what everybody learns, nor that it is taken back. What is learned are the tokens that
the copies of so many of them have: what one user alone can write into his copy, or what is private in it, never
gets into the common model. It is one lesson of the common ledger under the key of the first copy, of the source
``agreement`` and of no actor; what anybody else has taught of that message stays. Who changes the votes or the
lesson compares them again afterwards, so that of several processes the last one leaves them right. The lesson of
the user himself never fails: what is left undone is done with the next lesson on that mailing.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nbstream.bayes.counts import CLASSES
from nbstream.errors import NbstreamError, StoreUnavailable
from nbstream.filter import LessonOutcome, TokenizedMessage
from nbstream.own_models.fingerprint import Fingerprint, keyed_name, pack, shared_tokens
from nbstream.store.lua import lua_script
from nbstream.store.model.keys import ModelKeys
from nbstream.store.redis_errors import store_errors
from nbstream.tokens.tokenizer import Tokens

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from redis.asyncio import Redis

    from nbstream.filter import Filter, Lesson

_log = logging.getLogger(__name__)

SOURCE = "agreement"
"""The source of the lessons that users teach everybody."""

MAX_VOTERS = 10_000
"""How many users have a vote on one mailing; that of a further one does not count."""

_MAX_DISSENT = 0.1  # above that, what enough users call the opposite is a matter of taste
_MAX_ROUNDS = 10
_SECONDS = 5.0
_SECRET_BYTES = 32
_COUNTED = {
    LessonOutcome.LEARNED: "learned",
    LessonOutcome.RELEARNED: "learned",
    LessonOutcome.UNLEARNED: "unlearned",
}


class AgreementKeys(ModelKeys):
    """The keys of what users agree on, beside those of the common model."""

    @property
    def secret(self) -> str:
        """A string: the key of all hashes, drawn once."""
        return self._key("agreement:secret")

    def band(self, band: str) -> str:
        """A string: the mailing whose copies have this band; it expires."""
        return self._key(f"agreement:band:{band}")

    def votes(self, mailing: str) -> str:
        """A hash: what each user calls the mailing, and how many call it ham and spam; it expires."""
        return self._key(f"agreement:votes:{mailing}")

    def tokens(self, mailing: str) -> str:
        """A hash: the hashes of the tokens of each user's copy; it expires."""
        return self._key(f"agreement:tokens:{mailing}")

    def mailings_of(self, user: str) -> str:
        """A sorted set: the mailings that the user has called something, by time; it expires."""
        return self._key(f"agreement:of:{user}")


@dataclass(frozen=True, slots=True)
class AgreementOptions:
    """``min_users`` have to agree, None for never. Votes stay for ``seconds`` after the last one."""

    min_users: int | None
    seconds: int

    def agreed_label(self, votes: Sequence[int]) -> str | None:
        """Return what the mailing is for everybody by the number of ``votes`` for each class, None for nothing."""
        for label, own, other in zip(CLASSES, votes, reversed(votes), strict=True):
            if self.min_users is None or own < self.min_users:
                continue
            if other < self.min_users or other < _MAX_DISSENT * own:
                return label
        return None


class Agreement:
    """The votes of users, in the Redis of ``common``, which is the filter of the common model.

    ``count`` is called with the label and the outcome of each lesson that everybody learns or loses.
    """

    def __init__(
        self,
        client: Redis,
        model: str,
        common: Filter,
        options: AgreementOptions,
        count: Callable[[str, str], object] = lambda _label, _outcome: None,
    ) -> None:
        self._client = client
        self._keys = AgreementKeys(model)
        self._common = common
        self._options = options
        self._count = count
        self._claim = client.register_script(lua_script("claim_mailing.lua"))
        self._vote = client.register_script(lua_script("vote.lua"))

    async def note_lesson(self, user: str, message_key: str, tokens: Tokens, lesson: Lesson) -> None:
        """Note what the own model of the user has learned of the message, or lost; a failure is logged."""
        removes = lesson.outcome in {LessonOutcome.UNLEARNED, LessonOutcome.UNKNOWN}
        label = "" if removes else lesson.label or ""
        try:
            async with asyncio.timeout(_SECONDS):
                await self._note(user, message_key, tokens, label)
        except (NbstreamError, TimeoutError) as error:
            self._count(label or "none", "failed")
            _log.warning("what users agree on is not up to date: %s", str(error) or "it takes too long")

    async def _note(self, user: str, message_key: str, tokens: Tokens, label: str) -> None:
        secret = await self._secret()
        fingerprint = Fingerprint.of(message_key, tokens, secret)
        bands = [self._keys.band(band) for band in fingerprint.bands]
        with store_errors():
            claimed: Any = await self._claim(
                keys=bands, args=[message_key if label else "", self._options.seconds]
            )
        if mailing := claimed.decode():
            voter = keyed_name(user, secret)
            await self._set_vote(mailing, voter, label, message_key, pack(fingerprint.hashes))
            await self._settle(mailing, tokens.all, secret)

    async def count_mailings(self, user: str) -> int:
        """Return on how many mailings the user has a vote; ``user`` and errors are those of ``forget_user``."""
        with store_errors():
            secret: Any = await self._client.get(self._keys.secret)
            if secret is None:
                return 0
            return int(await self._client.zcard(self._keys.mailings_of(keyed_name(user, bytes(secret)))))

    async def forget_user(self, user: str) -> int:
        """Remove all votes of the user as if he took them back, and return on how many mailings he had some.

        ``user`` is his address as ``OwnModelNames.user_of`` returns it. Raises ``StoreUnavailable``; the call may
        be repeated then.
        """
        secret = await self._secret()
        voter = keyed_name(user, secret)
        with store_errors():
            mailings: Any = await self._client.zrange(self._keys.mailings_of(voter), 0, -1)
        for mailing in mailings:
            name = mailing.decode()
            await self._set_vote(name, voter)
            await self._settle(name, (), secret)
            with store_errors():  # last: where this stops before, the next call finds the mailing again
                await self._client.zrem(self._keys.mailings_of(voter), mailing)
        return len(mailings)

    async def _secret(self) -> bytes:
        """Return the key of the hashes, which the first one draws."""
        with store_errors():
            secret: Any = await self._client.get(self._keys.secret)
            if secret is None:
                await self._client.set(self._keys.secret, secrets.token_bytes(_SECRET_BYTES), nx=True)
                secret = await self._client.get(self._keys.secret)
        return bytes(secret)

    async def _set_vote(
        self, mailing: str, voter: str, label: str = "", message_key: str = "", packed: bytes = b""
    ) -> None:
        keys = [self._keys.votes(mailing), self._keys.tokens(mailing), self._keys.mailings_of(voter)]
        most_copies = 2 * (self._options.min_users or 0)
        limits = [self._options.seconds, most_copies, MAX_VOTERS, int(time.time())]
        with store_errors():
            await self._vote(keys=keys, args=[mailing, voter, label, message_key, packed, *limits])

    async def _settle(self, mailing: str, tokens: Sequence[bytes], secret: bytes) -> None:
        """Teach the common model what is agreed on, or take it back; ``tokens`` are those of the copy at hand."""
        for _ in range(_MAX_ROUNDS):
            entry = await self._common.parts.model.entry(mailing)
            if entry and entry.source != SOURCE:
                return
            label, copies = await self._agreed(mailing)
            known = entry.tokens if entry else tokens
            least = self._options.min_users or 0
            shared = shared_tokens(known, copies, least, secret) if label else ()
            if entry and (label != entry.label or len(shared) < len(entry.tokens)):
                lesson = await self._common.unlearn(TokenizedMessage(mailing, Tokens.from_all(known)), SOURCE)
                tokens = known
            elif label and shared and not entry:
                lesson = await self._common.learn(
                    TokenizedMessage(mailing, Tokens.from_all(shared)), label, SOURCE
                )
            else:
                return
            if outcome := _COUNTED.get(lesson.outcome):  # else another process was faster
                self._count(lesson.label or "none", outcome)
        raise StoreUnavailable("the votes on a mailing change too fast")

    async def _agreed(self, mailing: str) -> tuple[str | None, Sequence[bytes]]:
        """Return what the mailing is for everybody, and the packed hashes of copies of those who say so."""
        with store_errors():
            counts: Any = await self._client.hmget(self._keys.votes(mailing), [f"#{name}" for name in CLASSES])
            label = self._options.agreed_label([int(count or 0) for count in counts])
            if label is None:
                return None, ()
            copies: Any = await self._client.hgetall(self._keys.tokens(mailing))
            votes: Any = await self._client.hmget(self._keys.votes(mailing), list(copies)) if copies else []
        prefix = f"{label} ".encode()
        return label, [
            copy for copy, vote in zip(copies.values(), votes, strict=True) if vote and vote.startswith(prefix)
        ]
