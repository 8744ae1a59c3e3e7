"""The row of a checked message: what a list of messages shows of it, and how rows are looked for.

Rules: what is read is what was written, whatever the texts of the envelope are; they come from outside. A row is
one array of JSON in UTF-8. Behind it follow, each behind a line
feed: what became of the message in the quarantine, as another array; the recipients of former checks of the same
message, since a mail server may pass it on for each recipient by itself; and the names of the indices that have
the row. Each recipient has an index of their messages, since a user of a site with thousands of mailboxes would
not find theirs among the newest of all. It is named after a digest of the address. So the names have few bytes,
all of them harmless, and two addresses may have one name: who looks up an index compares the rows.

A search scans nothing. It goes through the rows in the order of time, or through those of one recipient,
and compares each with what is wanted; it looks at ``MAX_LOOKED_AT`` rows at most, and says how far it came. A page
begins behind a position, which is the time and the id of a row: messages that come in meanwhile move nothing.
"""

from __future__ import annotations

import base64
import hashlib
import json
import logging
import math
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from nbstream.errors import StoreIncompatible, StoreUnavailable
from nbstream.mail.addresses import canonical_address
from nbstream.policy.envelope import MAX_ADDRESS_LENGTH, RememberedEnvelope
from nbstream.policy.recipient_rules import DEFAULT_RULE_NAME
from nbstream.policy.verdict import Verdict
from nbstream.store.lua import lua_script
from nbstream.store.redis_errors import store_errors

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from nbstream.store.model.keys import ModelKeys


NULL_SENDER = "<>"
"""The address of the null sender (RFC 5321 4.5.5), as people write it."""

_DIGEST_BYTES = 6  # 8 characters; where two of 100,000 addresses share one, some more rows are compared
# Texts from mail have surrogates where bytes were no UTF-8. Escaped ASCII would take six bytes for each letter
# beyond ASCII, and would make one character of two surrogates.
_ENCODE_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


class RowPosition(NamedTuple):
    """Where a row stands in the order of all rows: by the time of its check, then by its id.

    This is a named tuple because a search compares thousands of them.
    """

    checked_at: float
    id: str


class OutcomeKind(StrEnum):
    """What may become of a message that waited in the quarantine."""

    RELEASED = "released"
    DELETED = "deleted"


class QuarantineOutcome(NamedTuple):
    """What became of a message in the quarantine, when (seconds since the epoch), and who wanted it."""

    kind: OutcomeKind
    at: float
    actor: str

    def pack(self) -> bytes:
        """Return the stored form."""
        return _ENCODE_JSON([str(self.kind), self.at, self.actor]).encode("utf-8", "surrogatepass")

    @classmethod
    def unpack(cls, packed: bytes) -> QuarantineOutcome:
        """Return what ``pack`` packed. Raises ``ValueError`` or ``TypeError`` for anything else."""
        kind, at, actor = json.loads(packed.decode("utf-8", "surrogatepass"))
        return cls(OutcomeKind(kind), read_finite(at), "".join(actor))


@dataclass(frozen=True, slots=True)
class MessageRow:
    """One checked message in a list: its id (the key of the message) and the time of its check.

    The time is in seconds since the epoch, ``policy`` is the name of the rule that decided. ``envelope`` is
    None where no envelopes are remembered; what is read has the recipients of former checks in it. ``outcome`` is
    None where the message was not in the quarantine or waits there. ``indices`` are the names
    of the indices that have it.
    """

    id: str
    checked_at: float
    verdict: str
    probability: float
    policy: str = DEFAULT_RULE_NAME
    envelope: RememberedEnvelope | None = None
    outcome: QuarantineOutcome | None = None
    indices: tuple[str, ...] = field(default=(), compare=False)

    @property
    def position(self) -> RowPosition:
        """Where the row stands among others."""
        return RowPosition(self.checked_at, self.id)

    def pack(self) -> bytes:
        """Return the stored form, without the id."""
        values: list[object] = [self.checked_at, self.verdict, self.probability, self.policy]
        if envelope := self.envelope:
            values += envelope.listener, envelope.sender, envelope.recipients, envelope.recipient_count
            values += envelope.subject, envelope.action, envelope.header_from
        try:
            packed = orjson.dumps(values)
        except TypeError:  # half of a surrogate pair
            packed = _ENCODE_JSON(values).encode("utf-8", "surrogatepass")
        outcome = self.outcome.pack() if self.outcome else b""
        return b"\n".join((packed, outcome, b"", " ".join(self.indices).encode()))

    @classmethod
    def unpack(cls, message_key: str, packed: bytes) -> MessageRow:
        """Return the row that ``pack`` packed; raises ``StoreIncompatible`` if another program packed it."""
        try:
            row, packed_outcome, packed_others, indices = packed.split(b"\n")
            values = json.loads(row.decode("utf-8", "surrogatepass"))
            at, verdict, probability, policy, *of_envelope = values
            others = json.loads(packed_others.decode("utf-8", "surrogatepass")) if packed_others else ()
            envelope = _read_envelope(of_envelope, others) if of_envelope else None
            at, probability = read_finite(at), read_finite(probability)
            outcome = QuarantineOutcome.unpack(packed_outcome) if packed_outcome else None
            names = tuple(indices.decode("ascii").split())
            return cls(
                message_key, at, str(Verdict(verdict)), probability, "".join(policy), envelope, outcome, names
            )
        except (ValueError, TypeError, OverflowError, RecursionError) as error:
            raise StoreIncompatible("a row cannot be read: another program wrote it") from error


def read_finite(value: Any) -> float:
    """Return a number that can be shown. Raises ``ValueError`` or ``TypeError`` for anything else."""
    if not math.isfinite(number := float(value)):
        raise ValueError("no number")
    return number


def _read_envelope(values: Any, others: Any) -> RememberedEnvelope:
    """Return the envelope of these values; ``others`` are the recipients of former checks.

    Raises ``ValueError`` or ``TypeError`` for others than ``pack`` writes.
    """
    listener, sender, recipients, recipient_count, subject, action, header_from = values
    texts = (text for text in (sender, subject, header_from) if text is not None)
    "".join((listener, action, *recipients, *others, *texts))  # or TypeError: the fastest look at all of them
    count = int(recipient_count) + len(others)
    return RememberedEnvelope(listener, sender, (*recipients, *others), count, subject, action, header_from)


def normalize_address(text: str) -> str:
    """Return an address, or ``@`` and a domain, as it is searched for: canonical, and cut."""
    return canonical_address(text)[:MAX_ADDRESS_LENGTH] or NULL_SENDER


def address_matches(address: str, wanted: str) -> bool:
    """Return whether ``wanted``, which is normalized, is this address, or ``@`` and its domain."""
    return wanted in _searched_texts(address)


def is_named_by_sender(address: str, sender: str) -> bool:
    """Return whether the sender of an envelope names this recipient, as those of mailing lists do (VERP)."""
    return canonical_address(address).replace("@", "=") in canonical_address(sender)


def _searched_texts(address: str) -> Iterator[str]:
    """Yield what an address is found by: itself, and ``@`` and its domain where it has one."""
    whole = normalize_address(address)
    yield whole
    _, at, domain = whole.rpartition("@")
    if at:
        yield at + domain


def actions_of(envelope: RememberedEnvelope) -> list[str]:
    """Return the kinds of the actions that were taken."""
    return envelope.action.split(", ") if envelope.action else []


def recipient_indices(addresses: Iterable[str], user_of: Callable[[str], str] = normalize_address) -> list[str]:
    """Return the names of the indices of some recipients, each once.

    ``user_of`` returns the address of the user to whom mail for a recipient belongs, where it is another one.
    """
    recipients = list(map(normalize_address, addresses))
    return list(dict.fromkeys(map(recipient_index, (*recipients, *map(user_of, recipients)))))


@lru_cache(maxsize=4096)  # recipients come again and again
def recipient_index(address: str) -> str:
    """Return the name of the index of all messages to this address, which is normalized."""
    digest = hashlib.blake2b(address.encode("utf-8", "surrogatepass"), digest_size=_DIGEST_BYTES)
    return base64.urlsafe_b64encode(digest.digest()).decode("ascii")


_log = logging.getLogger(__name__)


class QuarantineOutcomes:
    """Notes what became of quarantined messages, for as long as their rows are remembered."""

    def __init__(self, client: Redis, keys: ModelKeys) -> None:
        self._keys = keys
        self._script = client.register_script(lua_script("note_outcome.lua"))

    async def note(self, message_key: str, kind: OutcomeKind, actor: str) -> None:
        """Note it, in place of what was noted before; without a row nothing is noted.

        What cannot be written is logged and not noted: it has happened all the same.
        """
        outcome = QuarantineOutcome(kind, time.time(), actor)
        try:
            with store_errors():
                await self._script(keys=[self._keys.row(message_key)], args=[outcome.pack()])
        except StoreUnavailable as error:
            _log.warning("lists will not show what became of a quarantined message: %s", error)


MAX_LOOKED_AT = 2000
"""The most rows that one search looks at."""

_READ_COUNT = 500  # rows that are read at once: a few ms of the event loop


@dataclass(frozen=True, kw_only=True, slots=True)
class RowFilter:
    """What is wanted; what is empty or None is not asked for.

    ``id_prefix`` is an id or its beginning. The time of the check is at or after ``since`` and before ``until``,
    in seconds since the epoch. ``sender`` and ``recipient`` are as ``normalize_address`` returns them; ``user_of``
    returns the address of the user to whom mail for a recipient belongs, who is looked for as well. ``action``
    is one of those that were taken, ``policy`` the name of the policy that decided. The subject has ``subject`` in
    it; upper and lower case are the same.
    """

    id_prefix: str = ""
    since: float | None = None
    until: float | None = None
    verdict: str = ""
    sender: str = ""
    recipient: str = ""
    action: str = ""
    policy: str = ""
    subject: str = ""
    user_of: Callable[[str], str] = normalize_address

    def matches(self, row: MessageRow) -> bool:
        """Return whether a row is what is wanted."""
        if not row.id.startswith(self.id_prefix) or not self.lower <= row.checked_at < self.upper:
            return False
        if (self.verdict and row.verdict != self.verdict) or (self.policy and row.policy != self.policy):
            return False
        if self.action and not (row.envelope and self.action in actions_of(row.envelope)):
            return False
        subject = (row.envelope.subject if row.envelope else None) or ""
        if self.subject.casefold() not in subject.casefold():
            return False
        sender = row.envelope.sender if row.envelope else None
        if self.sender and (sender is None or not address_matches(sender, self.sender)):
            return False
        recipients = row.envelope.recipients if row.envelope else ()
        return not self.recipient or any(
            address_matches(address, self.recipient) or self.user_of(normalize_address(address)) == self.recipient
            for address in recipients
        )

    @property
    def lower(self) -> float:
        """The earliest time that is wanted."""
        return -math.inf if self.since is None else self.since

    @property
    def upper(self) -> float:
        """The time before which it is wanted."""
        return math.inf if self.until is None else self.until


class RowPage(NamedTuple):
    """Some rows, the newest first.

    ``next_position`` is where the search goes on to older ones, None where it has come to the end. With ``is_cut``
    it has not, but has looked at as many rows as one search may.
    """

    rows: tuple[MessageRow, ...]
    next_position: RowPosition | None = None
    is_cut: bool = False


class RowSearch:
    """The rows of one model in Redis; ``seconds`` is for how long a row is remembered."""

    def __init__(
        self, client: Redis, keys: ModelKeys, seconds: float, clock: Callable[[], float] = time.time
    ) -> None:
        self._client = client
        self._keys = keys
        self._seconds = seconds
        self._clock = clock

    async def rows(self, message_keys: Collection[str]) -> Mapping[str, MessageRow]:
        """Return the rows of those of these messages that have one. Raises ``StoreUnavailable``."""
        return {row.id: row for row in await self._read_rows(list(message_keys))}

    async def count(self) -> int:
        """Return how many messages are remembered. Raises ``StoreUnavailable``."""
        with store_errors():
            count: int = await self._client.zcard(self._keys.recent)
        return count

    async def search(
        self,
        wanted: RowFilter,
        position: RowPosition | None = None,
        count: int = 50,
    ) -> RowPage:
        """Return at most ``count`` rows that are ``wanted``: the newest, or those next to ``position`` and older.

        Raises ``StoreUnavailable``.
        """
        for row in await self._read_rows([wanted.id_prefix] if wanted.id_prefix else []):  # a whole id
            is_found = wanted.matches(row) and row.checked_at >= self._oldest_time
            return RowPage((row,) if is_found and (position is None or row.position < position) else ())
        found: list[MessageRow] = []
        looked_at = 0
        async for chunk in self._walk(wanted, position, count + 1):
            places = chunk[: MAX_LOOKED_AT - looked_at]
            looked_at += len(places)
            found += await self._wanted_rows(places, wanted)
            if len(found) > count:
                return RowPage(tuple(found[:count]), found[count - 1].position)
            if looked_at == MAX_LOOKED_AT:
                return RowPage(tuple(found), places[-1], is_cut=True)
        return RowPage(tuple(found))

    @property
    def _oldest_time(self) -> float:
        """The time of the oldest check that is still remembered."""
        return self._clock() - self._seconds

    async def _walk(
        self, wanted: RowFilter, position: RowPosition | None, at_once: int
    ) -> AsyncIterator[list[RowPosition]]:
        """Yield the places of rows in their order behind ``position``, within the times that are wanted.

        At first they are ``at_once``, then more.
        """
        is_address = wanted.recipient and not wanted.recipient.startswith("@")
        key = self._keys.rows_to(recipient_index(wanted.recipient)) if is_address else self._keys.recent
        oldest = max(wanted.lower, self._oldest_time)
        lowest, highest = str(oldest), "inf" if wanted.until is None else f"({wanted.until}"
        offset = 0
        # A position may be of a search for other times: what is not behind it is not walked through.
        if position and position.checked_at < wanted.upper:
            highest = str(position.checked_at)
        while True:
            with store_errors():
                entries: Any = await self._client.zrange(
                    key,
                    highest,
                    lowest,
                    desc=True,
                    byscore=True,
                    withscores=True,
                    offset=offset,
                    num=at_once,
                )
            places = [RowPosition(score, key.decode("utf-8", "replace")) for key, score in entries]
            places = [place for place in places if position is None or place < position]
            if places:
                yield places
                position, offset = places[-1], 0
                highest = str(position.checked_at)
            else:  # all of them are as old as the position: it may be one of many of the same moment
                offset += at_once
            if len(entries) < at_once:
                return
            at_once = _READ_COUNT

    async def _wanted_rows(self, places: Sequence[RowPosition], wanted: RowFilter) -> list[MessageRow]:
        """Return the rows at these places that are wanted.

        A row may have expired, and a message that has been checked again meanwhile has another place.
        """
        times = {place.id: place.checked_at for place in places if place.id.startswith(wanted.id_prefix)}
        rows = await self._read_rows(list(times))
        return [row for row in rows if row.checked_at == times[row.id] and wanted.matches(row)]

    async def _read_rows(self, message_keys: Sequence[str]) -> list[MessageRow]:
        """Return the rows of these messages in their order, without those that are not there or not readable."""
        if not message_keys:
            return []
        with store_errors():
            values: Any = await self._client.mget([self._keys.row(key) for key in message_keys])
        rows, unreadable = [], []
        for key, packed in zip(message_keys, values, strict=True):
            if packed is None:
                continue
            try:
                rows.append(MessageRow.unpack(key, packed))
            except StoreIncompatible as error:
                unreadable.append(error)
        if unreadable:  # logged once: beside a later version there may be hundreds
            _log.warning("%d messages are left out: %s", len(unreadable), unreadable[0])
        return rows
