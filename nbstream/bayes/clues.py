"""Clues: the features that voted in a score, with their log-ratios; of many votes only the strongest.

Rules: pure; which clues are chosen does not depend on the order in which they were looked up, because equally
strong ones are chosen by name; a vote of 0 is no clue. The clues of the multinomial model are stored as token
indices and log-ratios. They are named and sorted only when somebody reads them: that takes as long as choosing
them, and the clues of most checks are never read.
"""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar, overload

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nbstream.bayes.packed_clues import PackedClues
    from nbstream.tokens.tokenizer import Tokens

Vote: TypeAlias = tuple[float, bytes]
"""A log-ratio in nats, and the name of the feature that it comes from."""

Item = TypeVar("Item")


class Clue(NamedTuple):
    """A feature that voted, with its ``log_ratio`` ln P(feature | spam) - ln P(feature | ham) in nats.

    A positive log-ratio speaks for spam. ``token`` is the name of the token, or of the feature where an event
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
    """The tokens of one message that voted.

    ``token_indices`` are their indices in ``tokens.all``, in ascending order; ``ratios`` are their log-ratios
    in nats, both of shape (clues,). As a sequence the strongest clue comes first, and equally strong ones are
    sorted by name. ``packed`` has these numbers and the counts of the clues, where they came packed.
    """

    __slots__ = ("_arrays", "packed", "tokens")

    def __init__(self, tokens: Tokens, token_indices: NDArray[np.intp], ratios: NDArray[np.float64]) -> None:
        super().__init__()
        self.tokens = tokens
        self.packed: PackedClues | None = None
        self._arrays: tuple[NDArray[np.integer], NDArray[np.float64]] | None = token_indices, ratios

    @classmethod
    def from_packed(cls, tokens: Tokens, packed: PackedClues) -> TokenClues:
        """Return the clues of ``tokens`` whose numbers are ``packed``: they are unpacked when they are read."""
        clues = cls.__new__(cls)
        clues._cached_items, clues._arrays = None, None
        clues.tokens, clues.packed = tokens, packed
        return clues

    def _numbers(self) -> tuple[NDArray[np.integer], NDArray[np.float64]]:
        if self._arrays is None:
            assert self.packed is not None
            self._arrays = self.packed.token_indices, self.packed.ratios
        return self._arrays

    @property
    def token_indices(self) -> NDArray[np.integer]:
        """The indices of the tokens in ``tokens.all``."""
        return self._numbers()[0]

    @property
    def ratios(self) -> NDArray[np.float64]:
        """The log-ratios of the tokens in nats."""
        return self._numbers()[1]

    def __len__(self) -> int:
        return self.packed.length if self.packed else len(self.token_indices)

    def strength_order(self) -> list[int]:
        """Return the positions in ``token_indices``, that of the strongest clue first."""
        return [i for _, _, i in self._ranked()]

    def _slice(self, indices: slice) -> tuple[Clue, ...]:
        """Return the clues at these indices, and make no others: a header field shows 8 of about 70."""
        if self._cached_items is not None:
            return self._cached_items[indices]
        ratios = self.ratios.tolist()
        at_least = indices.stop if indices.start is None and indices.step is None else None
        return tuple(Clue(name, ratios[i]) for _, name, i in self._ranked(at_least)[indices])

    def _ranked(self, at_least: int | None = None) -> list[tuple[float, bytes, int]]:
        """Return (minus strength, name, position in ``token_indices``) of each clue, strongest first.

        With ``at_least`` only so many clues, and those that are as strong as the last of them.
        """
        strengths = list(map(abs, self.ratios.tolist()))  # of 70 clues, lists are faster than arrays
        positions: Iterable[int] = range(len(strengths))
        if at_least is not None and 0 < at_least < len(strengths):
            weakest = sorted(strengths)[-at_least]
            positions = [position for position in positions if strengths[position] >= weakest]
        names, indices = self.tokens.all.names, self.token_indices.tolist()
        return sorted((-strengths[position], names[indices[position]], position) for position in positions)

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


def sort_by_strength(votes: Sequence[Vote]) -> list[Vote]:
    """Return the votes other than 0, strongest first, equally strong ones by name."""
    return sorted(filter(itemgetter(0), votes), key=lambda vote: (-abs(vote[0]), vote[1]))
