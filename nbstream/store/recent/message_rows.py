"""The row of a checked message: what a list of messages shows of it, and how a user finds what is theirs.

Rules: what is read is what was written, whatever the texts of the envelope are; they come from outside. A row is
one array of JSON in UTF-8, whose first value is the version of the format. Behind it follow, each behind a line
feed: what became of the message in the quarantine, as another array; the recipients of former checks of the same
message, since a mail server may pass it on for each recipient by itself; and the names of the indices that have
the row. Each recipient has an index of their messages, since a user of a site with thousands of mailboxes would
not find theirs among the newest of all. It is named after a digest of the address. So the names have few bytes,
all of them harmless, and two addresses may have one name: who looks up an index compares the rows.
"""

from __future__ import annotations

import base64
import hashlib
import json
import logging
import time
from collections.abc import Callable, Iterable, Iterator
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


@dataclass(frozen=True, slots=True)
class QuarantineOutcome:
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
        return cls(OutcomeKind(kind), float(at), actor)


@dataclass(frozen=True, slots=True)
class MessageRow:
    """One checked message in a list: its id (the key of the message) and the time of its check.

    The time is in seconds since the epoch, ``policy`` is the name of the treatment that decided. ``envelope`` is
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
            at, probability = float(at), float(probability)
            outcome = QuarantineOutcome.unpack(packed_outcome) if packed_outcome else None
            names = tuple(indices.decode("ascii").split())
            return cls(message_key, at, str(Verdict(verdict)), probability, policy, envelope, outcome, names)
        except (ValueError, TypeError, OverflowError, RecursionError) as error:
            raise StoreIncompatible("a row cannot be read: another program wrote it") from error


def _read_envelope(values: Any, others: Any) -> RememberedEnvelope:
    """Return the envelope of these values; ``others`` are the recipients of former checks.

    Raises ``ValueError`` or ``TypeError`` for others than ``pack`` writes.
    """
    listener, sender, recipients, recipient_count, subject, action, header_from = values
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
