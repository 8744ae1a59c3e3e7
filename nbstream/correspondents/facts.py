"""What a process knows of the mail of its site, and the tokens that it makes of that.

Three tokens: ``known.answer`` is on a message that names one of ours in In-Reply-To or References, and whose
sender is proved and of a domain that we sent that one to; ``known.answer.other`` on any other that names one of
ours, as on a mailing list; ``known.sender`` on one whose sender is proved, and to whom users of ours wrote before.

Rules:

- No sender can write these tokens: they have no colon, which all tokens of a message's own fields and words have.
- What is known is hashed under a key (BLAKE2b, 8 bytes), and nothing else of it is there. A million of them match
  what a stranger makes up with a probability below 1e-12.
- A fact counts from its own time on, and not for ever. The time of a message is that of its topmost Received
  field, where it is not ahead of the clock. Old mail that is learned now gets the tokens that it got when it came.
- Where nothing is known there is no token, and a message is not read for it. Of a longer header than people send
  nothing is read at all: how long it takes would say whom we know.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, NamedTuple

from nbstream.correspondents.sent_mail import read_date, read_message_ids
from nbstream.mail import header_fields
from nbstream.mail.addresses import find_addresses
from nbstream.numpy_on_demand import np
from nbstream.policy.sender_lists import UNKNOWN_SENDER, read_header
from nbstream.tokens.tokenizer import Tokenizer
from nbstream.tokens.tokens import TokenizedMessage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from nbstream.correspondents.sent_mail import SentMail
    from nbstream.mail.header_fields import HeaderField
    from nbstream.mail.message import Message
    from nbstream.policy.sender_lists import EvidenceReader

ANSWER, ANSWER_TO_OTHERS, SENDER = b"known.answer", b"known.answer.other", b"known.sender"

DAY_SECONDS = 86_400

ANSWER_SECONDS = 90 * DAY_SECONDS
"""For how long an answer to a message of ours is known."""

SENDER_SECONDS = 365 * DAY_SECONDS
"""For how long those whom we wrote to are known."""

MAX_MESSAGES = 500_000
"""How many messages of ours are known, and how many senders: 100 bytes of Redis each, and 50 of each process."""

_HASH_BYTES = 8
_CITING = ("in-reply-to", "references")
_MAX_IDS = 20  # of a field: the first, to which all others answer, and the last ones
_MAX_LEVELS = 5  # of a domain
_MERGED_FACTS = 4096
_LAST = (1 << 32) - 1
_MAX_HEADER_BYTES = 32 << 10


class SentFacts(NamedTuple):
    """The hashes of what one message says: of its user, of its recipients, and of an answer to it."""

    at: int
    user: int
    senders: tuple[int, ...]
    answers: tuple[int, ...]


class FactHasher:
    """Hashes facts under a key of 32 bytes; ``fingerprint`` tells the key from others, and says nothing of it."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self.fingerprint = self._hash(b"fingerprint").to_bytes(_HASH_BYTES, "big")

    def hash_sent(self, sent: SentMail) -> SentFacts:
        """Return the facts of a message."""
        answers: list[int] = []
        if sent.message_id:
            domains = dict.fromkeys(address.rpartition("@")[2] for address in sent.recipients)
            answers = [self.answer(sent.message_id), *(self.answer(sent.message_id, name) for name in domains)]
        senders = tuple(map(self.sender, sent.recipients))
        return SentFacts(max(0, int(sent.at)), self.user(sent.user), senders, tuple(answers))

    def user(self, name: str) -> int:
        """Return the hash of a local user, by login or canonical address."""
        return self._hash(b"user", name.encode("utf-8", "replace"))

    def sender(self, address: str) -> int:
        """Return the hash of a sender whom we wrote to."""
        return self._hash(b"sender", address.encode("utf-8", "replace"))

    def answer(self, message_id: bytes, domain: str = "") -> int:
        """Return the hash of an answer to a message; with a ``domain``, of one from there."""
        return self._hash(b"answer from" if domain else b"answer", domain.encode("utf-8", "replace"), message_id)

    def _hash(self, kind: bytes, *parts: bytes) -> int:
        digest = hashlib.blake2b(b"\0".join(parts), digest_size=_HASH_BYTES, key=self._key, person=kind).digest()
        return int.from_bytes(digest, "big")


class FactTimes:
    """The first and the last time of facts (seconds since the epoch), by their hashes.

    There are at most ``limit``, and some thousands that are new: those with the oldest last time go first. A
    thread may read while another writes. A fact takes 16 bytes, in two arrays, where a dictionary takes 120: the
    mail of a company says hundreds of thousands, in each process.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        # Sorted hashes, and the two times of each as one number: the first one has the higher 32 bits.
        self._merged = np.empty(0, np.uint64), np.empty(0, np.uint64)
        self._new: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._merged[0]) + len(self._new)

    def find(self, fact: int) -> tuple[int, int] | None:
        """Return the first and the last time of a fact."""
        times = self._new.get(fact)
        if times is None:
            place = self._place(fact)
            if place is None:
                return None
            times = int(self._merged[1][place])
        return times >> 32, times & _LAST

    def _place(self, fact: int) -> int | None:
        hashes, _ = self._merged
        place = int(np.searchsorted(hashes, np.uint64(fact)))
        return place if place < len(hashes) and int(hashes[place]) == fact else None

    def add(self, fact: int, at: int) -> None:
        """Add a time of a fact."""
        first, last = self.find(fact) or (at, at)
        times, place = min(first, at) << 32 | max(last, at), self._place(fact)
        if place is not None:
            self._merged[1][place] = times
            return
        self._new[fact] = times
        if len(self._new) >= _MERGED_FACTS:
            self.drop_before(0)

    def drop_before(self, at: int) -> None:
        """Drop the facts whose last time is before ``at``, and the oldest beyond the limit."""
        new = np.array(sorted(self._new.items()), np.uint64).reshape(-1, 2).T
        places = np.searchsorted(self._merged[0], new[0])
        hashes, times = (np.insert(old, places, added) for old, added in zip(self._merged, new, strict=True))
        last = times & np.uint64(_LAST)
        excess = len(hashes) - self._limit
        if excess > 0:
            excess += self._limit // 50  # else all of this would be done each time
            at = max(at, int(np.partition(last, excess - 1)[excess - 1]) + 1)
        kept = last >= at
        self._merged, self._new = (hashes[kept], times[kept]), {}


class CorrespondentFacts:
    """What is known in this process: ``answers`` and ``senders``."""

    def __init__(self, hasher: FactHasher) -> None:
        self.hasher = hasher
        self.answers = FactTimes(2 * MAX_MESSAGES)  # a message to one domain has two
        self.senders = FactTimes(MAX_MESSAGES)

    def add(self, facts: SentFacts) -> None:
        """Add what a message of ours says."""
        for fact in facts.answers:
            self.answers.add(fact, facts.at)
        for fact in facts.senders:
            self.senders.add(fact, facts.at)

    def new_of(self, facts: SentFacts, now: float) -> SentFacts | None:
        """Return what of ``facts`` is not known yet, or is known from more than a day before, and not too old.

        A message says itself when it was sent: what is ahead of the clock would be known for ever, and is of now.
        """
        facts = facts._replace(at=min(facts.at, int(now)))
        senders = () if facts.at < now - SENDER_SECONDS else facts.senders
        answers = () if facts.at < now - ANSWER_SECONDS else facts.answers
        senders = tuple(fact for fact in senders if not _covers(self.senders.find(fact), facts.at))
        answers = tuple(fact for fact in answers if self.answers.find(fact) is None)
        return SentFacts(facts.at, facts.user, senders, answers) if senders or answers else None

    def expire(self, now: float) -> None:
        """Drop what is too old."""
        self.answers.drop_before(int(now) - ANSWER_SECONDS)
        self.senders.drop_before(int(now) - SENDER_SECONDS)

    def tokens(self, message: Message, reader: EvidenceReader, now: float) -> Sequence[bytes]:
        """Return the tokens of a message that is read at the time ``now``."""
        if header_fields.body_offset(message.raw[: _MAX_HEADER_BYTES + 1]) > _MAX_HEADER_BYTES:
            return ()
        if not self._is_of_somebody_known(message):
            return ()
        fields, is_whole = read_header(message)
        evidence = reader.read_fields(fields, is_whole, UNKNOWN_SENDER)
        at = min(now, _arrival(fields) or now)
        sender = evidence.from_addresses[0] if evidence.proves_address else ""
        tokens = self._answer_tokens(fields, sender.rpartition("@")[2], at)
        if sender:
            times = self.senders.find(self.hasher.sender(sender))
            if times and times[0] <= at <= times[1] + SENDER_SECONDS:
                tokens.append(SENDER)
        return tokens

    def _is_of_somebody_known(self, message: Message) -> bool:
        """Return whether there can be a token: most messages are of strangers, and a whole header costs more."""
        if self.answers:
            fields = [field for name in _CITING if (field := message.find_field(name))]
            if any(self.answers.find(self.hasher.answer(name)) for name in _cited(fields)):
                return True
        sender = message.find_field("from") if self.senders else None
        addresses = find_addresses([sender.value]) if sender else ()
        return any(self.senders.find(self.hasher.sender(address)) for address in addresses[:1])

    def _answer_tokens(self, fields: Sequence[HeaderField], domain: str, at: float) -> list[bytes]:
        own = [name for name in _cited(fields) if self._is_answer(self.hasher.answer(name), at)]
        for name in own:
            if any(self._is_answer(self.hasher.answer(name, level), at) for level in _levels(domain)):
                return [ANSWER]
        return [ANSWER_TO_OTHERS] if own else []

    def _is_answer(self, fact: int, at: float) -> bool:
        times = self.answers.find(fact)
        return times is not None and at <= times[1] + ANSWER_SECONDS


def _covers(times: tuple[int, int] | None, at: int) -> bool:
    return times is not None and times[0] <= at < times[1] + DAY_SECONDS


def _cited(fields: Sequence[HeaderField]) -> Iterator[bytes]:
    """Yield the messages that the first fields In-Reply-To and References name."""
    for wanted in _CITING:
        field = next((field for field in fields if field.name == wanted), None)
        ids = read_message_ids(field) if field else ()
        yield from ids if len(ids) <= _MAX_IDS else (ids[0], *ids[1 - _MAX_IDS :])


def _levels(domain: str) -> Iterator[str]:
    """Yield a domain and those above it, down to two labels."""
    labels = domain.split(".")
    for first in range(max(0, min(len(labels) - 1, _MAX_LEVELS))):
        yield ".".join(labels[first:])


def _arrival(fields: Sequence[HeaderField]) -> float | None:
    """Return when a message arrived: by the topmost Received field, else by Date; None where nothing says it."""
    for wanted in ("received", "date"):
        field = next((field for field in fields if field.name == wanted), None)
        if field and (at := read_date(field)) is not None:
            return at
    return None


class CorrespondentTokenizer(Tokenizer):
    """A tokenizer that adds the tokens of what is known at the moment."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        facts: Callable[[], CorrespondentFacts],
        reader: EvidenceReader,
        clock: Callable[[], float],
    ) -> None:
        super().__init__(tokenizer.options)
        self._tokenizer, self._facts, self._reader, self._clock = tokenizer, facts, reader, clock

    def tokenize(self, message: Message) -> TokenizedMessage:
        """Return the key and the tokens of ``message``."""
        taken = self._tokenizer.tokenize(message)
        known = self._facts().tokens(message, self._reader, self._clock())
        return taken._replace(tokens=taken.tokens.with_more_head(known)) if known else taken
