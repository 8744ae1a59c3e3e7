"""Clues: the features that voted in a score, with their log-ratios; of many votes only the strongest.

Rules: pure; which clues are chosen does not depend on the order in which they were looked up, because equally
strong ones are chosen by name; a vote of 0 is no clue. The clues of the multinomial model are kept as the indices
of tokens, with their counts and log-ratios. They are named and sorted only when somebody reads them: that takes as
long as choosing them, and the clues of most checks are never read.
"""

from __future__ import annotations

import struct
from abc import abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import nsmallest
from typing import TYPE_CHECKING, NamedTuple, TypeVar, overload

from nbstream.bayes.columns import CLASSES
from nbstream.bayes.counts import WEIGHT_ONE, is_sum
from nbstream.bayes.multinomial import HAM, SPAM, token_log_ratios
from nbstream.numpy_on_demand import np
from nbstream.tokens.token_groups import NOVELTY_GROUPS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from nbstream.bayes.counts import Totals
    from nbstream.engine.score import NativeLikelihood
    from nbstream.tokens.tokens import Tokens


# The result of scoring a message.


class GroupTokens(NamedTuple):
    """How many tokens of each of ``NOVELTY_GROUPS`` a message has, and how many of them learned spam has had."""

    present: tuple[int, ...] = (0,) * len(NOVELTY_GROUPS)
    in_spam: tuple[int, ...] = (0,) * len(NOVELTY_GROUPS)


NO_GROUP_TOKENS = GroupTokens()


class Score(NamedTuple):
    """A score: the ``log_odds`` of spam in nats, before calibration.

    ``clues`` are the features that voted, strongest first; ``prior`` is the rest of the log-odds. The prior and
    the log-ratios of all clues add up to ``log_odds``. ``group_tokens`` say how new the message is; see
    ``bayes.novelty``. ``likelihood`` is there where the native library was given a
    calibration.

    This is a named tuple because each check makes one, and a frozen dataclass is slower to create.
    """

    log_odds: float
    clues: TokenClues
    prior: float = 0.0
    group_tokens: GroupTokens = NO_GROUP_TOKENS
    likelihood: NativeLikelihood | None = None


# The numbers of clues in one byte string: their token indices, their counts and their log-ratios.
#
# Rules: explanations store this form, and the native library writes it (``native/src/score/packed_clues.rs``),
# so that the numbers of most messages are remembered without being unpacked. All of them are little-endian.
# First come the indices of all clues, then the counts of each one, then the log-ratios of all.

_RATIO_BYTES = 8


class PackedClues(NamedTuple):
    """The numbers of ``length`` clues in ``content``.

    An index takes ``index_bytes``, a count ``count_bytes``, and a log-ratio 8 bytes. Each check makes one, and a
    frozen dataclass is slower to create.
    """

    content: bytes
    length: int
    index_bytes: int
    count_bytes: int

    @classmethod
    def pack(
        cls,
        token_indices: NDArray[np.integer],
        counts: NDArray[np.integer],
        ratios: NDArray[np.float64],
        tokens: int,
    ) -> PackedClues:
        """Pack the clues of a message that has so many ``tokens``; ``counts`` has the shape (clues, classes).

        A count takes 4 bytes where all of them fit, else 8.
        """
        index_bytes = bytes_of_index(tokens)
        count_bytes = 4 if counts.min(initial=0) >= -(2**31) and counts.max(initial=0) < 2**31 else 8
        arrays = (
            token_indices.astype(f"<u{index_bytes}"),
            counts.astype(f"<i{count_bytes}"),
            ratios.astype("<f8"),
        )
        return cls(b"".join(array.tobytes() for array in arrays), len(token_indices), index_bytes, count_bytes)

    @property
    def token_indices(self) -> NDArray[np.integer]:
        """The indices of the tokens, shape (clues,)."""
        return np.frombuffer(self.content, f"<u{self.index_bytes}", self.length)

    @property
    def counts(self) -> NDArray[np.integer]:
        """The counts of the tokens, shape (clues, classes)."""
        start, count = self.index_bytes * self.length, len(CLASSES) * self.length
        return np.frombuffer(self.content, f"<i{self.count_bytes}", count, start).reshape(-1, len(CLASSES))

    @property
    def ratios(self) -> NDArray[np.float64]:
        """The log-ratios in nats, shape (clues,)."""
        return np.frombuffer(self.content, "<f8", self.length, self.size - _RATIO_BYTES * self.length)

    @property
    def size(self) -> int:
        """How many bytes ``content`` has."""
        return self.length * (self.index_bytes + len(CLASSES) * self.count_bytes + _RATIO_BYTES)


def bytes_of_index(tokens: int) -> int:
    """Return how many bytes an index takes in a message that has so many tokens."""
    return 1 if tokens <= 2**8 else 2 if tokens <= 2**16 else 4


Item = TypeVar("Item")


class Clue(NamedTuple):
    """A feature that voted, with its ``log_ratio`` ln P(feature | spam) - ln P(feature | ham) in nats.

    A positive log-ratio is evidence for spam. ``token`` is the name of the token, or of the feature where an event
    model has no tokens.
    """

    token: bytes
    log_ratio: float


class LazySequence(Sequence[Item]):
    """A sequence whose items are computed when they are first read; it equals a tuple of these items."""

    __slots__ = ("_cached_items",)

    def __init__(self) -> None:
        self._cached_items: tuple[Item, ...] | None = None

    @abstractmethod
    def _compute_items(self) -> tuple[Item, ...]:
        """Return all items."""

    def _items(self) -> tuple[Item, ...]:
        if self._cached_items is None:
            self._cached_items = self._compute_items()
        return self._cached_items

    @overload
    def __getitem__(self, index: int) -> Item: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Item, ...]: ...

    def __getitem__(self, index: int | slice) -> Item | tuple[Item, ...]:
        return self._slice(index) if isinstance(index, slice) else self._items()[index]

    def _slice(self, indices: slice) -> tuple[Item, ...]:
        """Return the items at these indices."""
        return self._items()[indices]

    def __eq__(self, other: object) -> bool:
        return self._items() == tuple(other) if isinstance(other, Sequence) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # like a list, it is not hashable

    def __repr__(self) -> str:
        return repr(self._items())


class TokenClues(LazySequence[Clue]):
    """The clues of one message: the tokens that voted, and ``others``, which are no tokens.

    ``packed`` has the indices of the tokens in ``tokens.all``, in ascending order, their counts and their
    log-ratios. As a sequence the strongest clue comes first, and equally strong ones are sorted by name, which is
    that in ``tokens.shown``.
    ``own_rows`` has the counts of all tokens in each own model that had a say, the upper one first, of shape
    (tokens, classes). ``ranking`` is this order where it is known: the position of each clue in two bytes, then
    the names, separated by line feeds.
    """

    __slots__ = ("others", "own_rows", "packed", "ranking", "tokens")

    def __init__(
        self,
        tokens: Tokens,
        packed: PackedClues,
        own_rows: tuple[NDArray[np.int64], ...] = (),
        others: tuple[Clue, ...] = (),
        ranking: bytes = b"",
    ) -> None:
        super().__init__()
        self.tokens = tokens
        self.packed = packed
        self.own_rows = own_rows
        self.others = others
        self.ranking = ranking

    def of(self, tokens: Tokens) -> TokenClues:
        """Return the same clues among ``tokens``, which are those of these by other names."""
        return TokenClues(tokens, self.packed, self.own_rows, self.others)

    @property
    def own_levels(self) -> bytes:
        """Which own models have changed the log-ratio of each of ``token_indices``: one byte for each.

        Bit i, counted from the lowest, is set where level i has a count of the token above 0; there are at most 8
        levels. Empty where the common model scored alone.
        """
        if not self.own_rows:
            return b""
        levels = np.zeros(self.packed.length, np.uint8)
        for i, rows in enumerate(self.own_rows):
            levels |= (rows[self.token_indices].max(axis=1) > 0).astype(np.uint8) << np.uint8(i)
        return levels.tobytes()

    @property
    def token_indices(self) -> NDArray[np.integer]:
        """The indices of the tokens in ``tokens.all``."""
        return self.packed.token_indices

    @property
    def ratios(self) -> NDArray[np.float64]:
        """The log-ratios of the tokens in nats."""
        return self.packed.ratios

    def __len__(self) -> int:
        return self.packed.length + len(self.others)

    def ranked(self, count: int | None = None) -> tuple[list[bytes], Sequence[int]]:
        """Return the names and the positions of the ``count`` strongest clues, the strongest first; None for all.

        The others follow those in ``token_indices``.
        """
        if self.ranking:
            length = self.packed.length
            count = length if count is None else min(count, length)
            names = self.ranking[2 * length :].split(b"\n", count)[:count]
            return names, struct.unpack_from(f"<{count}H", self.ranking)
        names = self.tokens.shown.at(self.token_indices.tolist()) + [one.token for one in self.others]
        strengths = [abs(ratio) for ratio in self._every_ratio()]
        positions = sorted(range(len(names)), key=lambda i: (-strengths[i], names[i]))[:count]
        return [names[i] for i in positions], positions

    def _every_ratio(self) -> list[float]:
        return [*self.ratios.tolist(), *[one.log_ratio for one in self.others]]

    def _slice(self, indices: slice) -> tuple[Clue, ...]:
        """Return the clues at these indices, and make no others: a header field shows 8 of about 70."""
        if self._cached_items is not None:
            return self._cached_items[indices]
        places = range(len(self))[indices]
        (names, positions), ratios = self.ranked(max(places, default=-1) + 1), self._every_ratio()
        return tuple([Clue(names[place], ratios[positions[place]]) for place in places])

    def _compute_items(self) -> tuple[Clue, ...]:
        return self._slice(slice(None))


def strongest_indices(names: Sequence[bytes], ratios: NDArray[np.float64], limit: int) -> NDArray[np.intp]:
    """Return the indices of the at most ``limit`` strongest votes for ham and as many for spam."""
    order = ratios.argsort()
    values = ratios[order].tolist()
    ham_votes, spam_votes = bisect_left(values, 0.0), len(values) - bisect_right(values, 0.0)
    # Equal votes are in any order. Where the limit divides them, they are sorted by name: the first names are
    # chosen for ham, the last names for spam.
    if ham_votes > limit > 0 and values[limit - 1] == values[limit]:
        _sort_ties_by_name(order, values, limit, names)
    if spam_votes > limit > 0 and values[-limit] == values[-limit - 1]:
        _sort_ties_by_name(order, values, len(values) - limit, names)
    return np.concatenate((order[: min(ham_votes, limit)], order[len(values) - min(spam_votes, limit) :]))


def _sort_ties_by_name(order: NDArray[np.intp], values: list[float], at: int, names: Sequence[bytes]) -> None:
    """Sort by name, within ``order``, all votes that are equal to the one at position ``at``."""
    first, end = bisect_left(values, values[at]), bisect_right(values, values[at])
    order[first:end] = sorted(order[first:end].tolist(), key=names.__getitem__)


# The top tokens of a class.
#
# Rules: the log-ratio of a token is the vote that it has in a check as a clue of the multinomial model, and has
# the same sign as there: positive speaks for spam, whichever class is listed.

_BLOCK = 50_000  # tokens: what is computed of them takes some megabytes at a time


@dataclass(frozen=True, slots=True)
class TokenVote:
    """A token, its log-ratio in nats (positive speaks for spam), and how often each class had it.

    The messages are counted by their weight.
    """

    token: str
    log_ratio: float
    ham: float
    spam: float


@dataclass(frozen=True, slots=True, eq=False)
class NamedCounts:
    """The names of tokens and sums, their counts, shape (names, classes), and the totals, all of one moment."""

    names: Sequence[bytes]
    rows: NDArray[np.int64]
    totals: Totals


def top_tokens(counts: NamedCounts, label: str, k: int) -> list[TokenVote]:
    """Return the top ``k`` tokens for ``label``; equal ones by name.

    Their log-ratios are ln P(token | spam) - ln P(token | ham) for both classes. Takes about half a
    second for a million tokens.
    """
    sign = 1 if label == CLASSES[SPAM] else -1
    top = nsmallest(k, _keys(counts, sign))
    return [
        TokenVote(
            token.decode("utf-8", "replace"),
            -sign * key,
            *(float(counts.rows[row, column] / WEIGHT_ONE) for column in (HAM, SPAM)),
        )
        for key, token, row in top
    ]


def _keys(counts: NamedCounts, sign: int) -> Iterator[tuple[float, bytes, int]]:
    """Yield what the tokens are ordered by, with the row of each."""
    names = counts.names
    matching = [row for row, name in enumerate(names) if not is_sum(name)]
    for first in range(0, len(matching), _BLOCK):
        block = matching[first : first + _BLOCK]
        keys = (-sign * token_log_ratios(counts.rows[block], counts.totals)).tolist()
        yield from zip(keys, [names[row] for row in block], block, strict=True)
