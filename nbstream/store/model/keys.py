"""The names of a model's keys in Redis.

All keys of model ``m`` share the hash tag ``{m}``, so that one lesson is one atomic script on Redis Cluster too.
``sequence`` does not belong to ``totals``: it only grows, while learn followed by unlearn must give back the same
totals.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from nbstream.bayes.columns import CLASSES


@dataclass(frozen=True, slots=True)
class ModelKeys:
    """The keys of one model."""

    model: str

    def _key(self, name: str) -> str:
        return f"nbstream:{{{self.model}}}:{name}"

    @property
    def log_name(self) -> str:
        """The name of the counts in the log."""
        return "counts"

    @property
    def name_in_changes(self) -> str:
        """The name of the model in a change stream that it shares with others; empty for one of its own."""
        return ""

    @property
    def pattern(self) -> str:
        """The pattern of a SCAN that matches all keys of the model and no others; its name holds no wildcard."""
        return self._key("*")

    def counts(self, column: str) -> str:
        """A hash token → count: what was learned in one column."""
        return self._key(f"counts:{column}")

    @property
    def prequential_scores(self) -> tuple[str, ...]:
        """For each class: a sorted set of the recent prequential scores, packed, by time."""
        return tuple(self._key(f"first:{label}") for label in CLASSES)

    @property
    def totals(self) -> str:
        """A hash: learned messages and summed weights of each column, the vocabularies and the generation."""
        return self._key("totals")

    @property
    def changes(self) -> str:
        """The change stream, trimmed: each entry holds the resulting counts of one lesson."""
        return self._key("changes")

    @property
    def sequence(self) -> str:
        """The sequence number of the last change."""
        return self._key("sequence")

    @property
    def history(self) -> str:
        """A stream, trimmed: which person changed what, when, and the entry that was there before."""
        return self._key("history")

    @property
    def incoming(self) -> str:
        """A stream: the requests of programs to check or learn; an entry is removed when it is answered."""
        return self._key("in")

    @property
    def outgoing(self) -> str:
        """A stream, trimmed: the answers to those requests."""
        return self._key("out")

    @property
    def dead_letters(self) -> str:
        """A stream, trimmed: the requests that were tried too often."""
        return self._key("dead")

    @property
    def schema(self) -> str:
        """A hash: the signature of the model."""
        return self._key("schema")

    @property
    def recent(self) -> str:
        """A sorted set: the checked messages that are remembered, by the time of their check."""
        return self._key("recent")

    def checked(self, message_key: str) -> str:
        """A string: what is remembered of one checked message."""
        return self._key(f"checked:{message_key}")

    @property
    def link_key(self) -> str:
        """A string: the key that signs the links that users are mailed."""
        return self._key("users:link-key")

    @property
    def digest_off(self) -> str:
        """A hash whose fields are the addresses of the users who have switched the digest off."""
        return self._key("users:digest-off")

    def rows_to(self, index_name: str) -> str:
        """A sorted set: the messages to the recipient whose index has that name, by the time of their check."""
        return self._key(f"rows:to:{index_name}")

    def row(self, message_key: str) -> str:
        """A string: what a list of messages shows of one checked message."""
        return self._key(f"row:{message_key}")

    @property
    def sender_lists(self) -> str:
        """A hash: how many entries all sender lists have."""
        return self._key("lists")

    @property
    def sender_list_owners(self) -> str:
        """A sorted set: the owners of sender lists."""
        return self._key("lists:owners")

    @property
    def sender_list_changes(self) -> str:
        """The change stream of all sender lists, trimmed: each entry names an owner."""
        return self._key("lists:changes")

    def sender_list(self, owner: str) -> str:
        """A hash: the entries of one owner, by their patterns."""
        return self._key(f"lists:of:{owner}")

    @property
    def correspondents(self) -> str:
        """A stream: what mail of our users says of those they write to, as hashes."""
        return self._key("correspondents")

    def user_labelled(self, message_key: str) -> str:
        """A string: a user has labelled the message in their own model; it expires."""
        return self._key(f"user-labelled:{message_key}")

    def login_link(self, token_hash: str) -> str:
        """A string: what a one-time link to the web interface gives; it expires."""
        return self._key(f"web:link:{token_hash}")

    def login_session(self, token_hash: str) -> str:
        """A string: a session of the web interface; it expires."""
        return self._key(f"web:session:{token_hash}")

    def login_attempts(self, source: str) -> str:
        """A string: how often somebody gave a wrong password, or logged in, lately; it expires."""
        return self._key(f"web:attempts:{source}")

    @property
    def ledger_pattern(self) -> str:
        """The pattern of a SCAN that matches the keys of all ledger entries and no others."""
        return self.ledger("*")

    def ledger(self, message_key: str) -> str:
        """A hash: what one message was learned as, with the exact tokens and their weight."""
        return self._key(f"ledger:{message_key}")

    @property
    def importing(self) -> str:
        """A string: which import or removal is under way, or was killed. It refuses lessons."""
        return self._key("importing")

    @property
    def imported(self) -> str:
        """A set: the keys that this import has written."""
        return self._key("imported")


MAX_CHANGES = 10_000
"""About how many changes the change stream keeps: 60 MB of 300 tokens each. A follower further behind rescans."""

MAX_HISTORY_RECORDS = 100_000
"""About how many records the history keeps: 150 bytes each, and another 1.5 kB where an entry was replaced."""


class RetentionLimits(NamedTuple):
    """How much a model keeps.

    About how many changes stay in the change stream and how many records in the history, how many prequential
    scores of each class, and for how many seconds a ledger entry stays.
    """

    max_changes: int
    max_history_records: int
    max_prequential_scores: int
    ledger_seconds: int
