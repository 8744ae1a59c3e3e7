"""The ledger: what each message was learned as, so that exactly that can be unlearned.

An entry keeps the very tokens, the weight and the sums that were added. Therefore a later tokenizer, or a copy of
the message that was mangled on its way back, unlearns what was learned and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from nbstream.bayes.columns import is_automatic, is_column, kind_of, label_of
from nbstream.errors import StoreIncompatible
from nbstream.policy.thresholds import PrequentialScore
from nbstream.store.compression import MAX_NAMES_BYTES, compress, decompress_first
from nbstream.tokens import MAX_TOKENS
from nbstream.tokens.tokens import TokenList, join_tokens

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nbstream.bayes.counts import Sums


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """One ledger entry.

    ``version`` is drawn at random for each lesson and identifies the lesson that wrote the entry. ``column`` is
    where its counts are: the class that people gave, or one of ``bayes.columns.automatic_columns``. ``weight`` is
    the fixed-point weight that each of ``tokens`` was given (it may be 0). ``learned_at`` is in seconds since the
    epoch. ``source`` is the way by which the label came (a listener or a command), ``actor`` who gave it.
    ``score`` is the log-odds before the first lesson. ``change`` is the stream id of the change, empty before the
    entry is stored. ``sums`` were added beside the tokens. ``prequential_score`` is the packed
    ``policy.thresholds.PrequentialScore``, empty in entries of versions that had none. ``packed_tokens``
    is what ``pack_tokens`` makes of the tokens, empty where nobody has packed them yet.
    """

    version: str
    column: str
    weight: int
    tokens: Sequence[bytes]
    learned_at: float
    source: str
    actor: str
    score: float
    sums: tuple[tuple[bytes, int], ...] = ()
    prequential_score: bytes = b""
    change: bytes = b""
    packed_tokens: bytes = field(default=b"", compare=False, repr=False)

    @property
    def label(self) -> str:
        """The label of the message: ham or spam."""
        return label_of(self.column)

    @property
    def is_automatic(self) -> bool:
        """Whether the message was learned without people."""
        return is_automatic(self.column)

    @property
    def kind(self) -> str:
        """The kind that the message was learned as; empty for spam, and for ham of no kind."""
        return kind_of(self.column)

    def pack(self) -> dict[str, str | bytes]:
        """The entry as fields of a Redis hash, without ``change``, which the script adds."""
        return {
            "version": self.version,
            "label": self.column,
            "weight": str(self.weight),
            "tokens": self.packed_tokens or pack_tokens(self.tokens),
            "sums": join_sums(self.sums),
            "learned_at": repr(self.learned_at),
            "source": self.source,
            "actor": self.actor,
            "score": repr(self.score),
            "first": self.prequential_score,
        }

    @classmethod
    def unpack(cls, fields: Mapping[bytes, bytes]) -> LedgerEntry | None:
        """The entry in the fields of a Redis hash, or None for an empty one.

        Raises ``StoreIncompatible`` for fields that this program did not write.
        """
        if not fields:
            return None
        try:
            return cls._from_fields(fields)
        except (KeyError, ValueError) as error:
            raise StoreIncompatible("a ledger entry cannot be read: another program wrote it") from error

    @classmethod
    def _from_fields(cls, fields: Mapping[bytes, bytes]) -> LedgerEntry:
        column = fields[b"label"].decode()
        if not is_column(column):
            raise ValueError(column)
        return cls(
            version=fields[b"version"].decode(),
            column=column,
            weight=int(fields[b"weight"]),
            tokens=_bounded_tokens(unpack_names(fields[b"tokens"])),
            sums=split_sums(fields[b"sums"]),
            learned_at=float(fields[b"learned_at"]),
            source=fields[b"source"].decode(),
            actor=fields[b"actor"].decode(),
            score=float(fields[b"score"]),
            prequential_score=_checked_prequential_score(fields.get(b"first", b"")),
            change=fields[b"change"],
        )


def entry_of_people(entry: LedgerEntry | None) -> LedgerEntry | None:
    """The entry if a person has given the label, else None."""
    return None if entry and entry.is_automatic else entry


class LedgerConflict(NamedTuple):
    """What the ledger holds where it is not the entry that a lesson was to replace; None is no entry."""

    entry: LedgerEntry | None


def _checked_prequential_score(packed: bytes) -> bytes:
    """The packed prequential score, which may be empty; raises ``ValueError`` for anything else."""
    if packed:
        PrequentialScore.unpack(packed)
    return packed


def pack_tokens(tokens: Sequence[bytes]) -> bytes:
    """The field that stores the tokens of an entry."""
    return compress(join_tokens(tokens))


def unpack_tokens(packed: bytes) -> tuple[bytes, ...]:
    """The tokens of an entry from their field alone.

    Raises ``StoreIncompatible`` as ``LedgerEntry.unpack`` does.
    """
    try:
        return split_tokens(unpack_names(packed))
    except ValueError as error:
        raise StoreIncompatible("a ledger entry cannot be read: another program wrote it") from error


def unpack_names(packed: bytes) -> bytes:
    """Return the names of a ledger entry or of a change, separated by line feeds.

    Raises ``ValueError`` where ``packed`` is neither, and for too many names.
    """
    names, rest = decompress_first(packed, MAX_NAMES_BYTES)
    if rest:
        raise ValueError("more than names")
    return names


def split_tokens(joined: bytes) -> tuple[bytes, ...]:
    """The tokens that ``join_tokens`` joined; raises ``ValueError`` for more than a message has."""
    return _bounded_tokens(joined).names


def _bounded_tokens(joined: bytes) -> TokenList:
    """The joined tokens, which are counted before a name is made of each one."""
    length = joined.count(b"\n") + 1 if joined else 0
    if length > MAX_TOKENS:
        raise ValueError(f"{length} tokens")
    return TokenList.from_joined(joined, length)


def join_sums(sums: Sums) -> bytes:
    """The sums as one byte string, names and amounts in turn; no name holds white space."""
    return b" ".join(b"%s %d" % (name, amount) for name, amount in sums)


def split_sums(joined: bytes) -> tuple[tuple[bytes, int], ...]:
    """The sums that ``join_sums`` joined."""
    words = joined.split()
    return tuple(zip(words[::2], map(int, words[1::2]), strict=True))
