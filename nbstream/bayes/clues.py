"""Clues: what voted in a score, and by how much; of many, the strongest.

Rules: pure; which clues are chosen does not depend on the order in which they were looked up, equal ones are
chosen by name; what says nothing is no clue. The clues of the multinomial model are kept as places and ratios, and
named and put in order when somebody asks: that takes as long as choosing them, and most checks are never asked.
"""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar, overload

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nbstream.tokens.tokenizer import Tokens

Vote: TypeAlias = tuple[float, bytes]
"""A log-ratio, and the name of what it comes from."""

Item = TypeVar("Item")


class Clue(NamedTuple):
    """What voted, with ln P(it | spam) - ln P(it | ham): positive speaks for spam.

    ``token`` is the token's name; the vote of an event model that has no tokens has the name of its feature.
    """

    token: bytes
    log_ratio: float


class LazySequence(Sequence[Item]):
    """A sequence that is made when somebody asks for what is in it; equal to a tuple of the same."""

    __slots__ = ("_cached_items",)

    def __init__(self) -> None:
        self._cached_items: tuple[Item, ...] | None = None

    @abstractmethod
    def _compute_items(self) -> tuple[Item, ...]:
        """What is in it."""

    def _items(self) -> tuple[Item, ...]:
        if self._cached_items is None:
            self._cached_items = self._compute_items()
        return self._cached_items

    @overload
    def __getitem__(self, place: int) -> Item: ...

    @overload
    def __getitem__(self, place: slice) -> tuple[Item, ...]: ...

    def __getitem__(self, place: int | slice) -> Item | tuple[Item, ...]:
        return self._slice(place) if isinstance(place, slice) else self._items()[place]

    def _slice(self, places: slice) -> tuple[Item, ...]:
        """What is in it there."""
        return self._items()[places]

    def __eq__(self, other: object) -> bool:
        return self._items() == tuple(other) if isinstance(other, Sequence) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # as of a list

    def __repr__(self) -> str:
        return repr(self._items())


class TokenClues(LazySequence[Clue]):
    """Tokens of one message that voted, by their ``token_indices`` in ``tokens.all``, which are not in order.

    ``ratios`` are theirs, shape (clues,). As a sequence: strongest first, equal ones by name.
    """

    __slots__ = ("ratios", "token_indices", "tokens")

    def __init__(self, tokens: Tokens, places: NDArray[np.intp], ratios: NDArray[np.float64]) -> None:
        super().__init__()
        self.tokens = tokens
        self.token_indices = places
        self.ratios = ratios

    def __len__(self) -> int:
        return len(self.token_indices)

    def strength_order(self) -> list[int]:
        """Where in ``token_indices`` the strongest is, and so on."""
        return [i for _, _, i in self._ranked()]

    def _slice(self, places: slice) -> tuple[Clue, ...]:
        """Only these are made: a header tells 8 of 70."""
        if self._cached_items is not None:
            return self._cached_items[places]
        ratios = self.ratios.tolist()
        return tuple(Clue(name, ratios[i]) for _, name, i in self._ranked()[places])

    def _ranked(self) -> list[tuple[float, bytes, int]]:
        """The strongest first: minus its strength, its name, where it is in ``token_indices``."""
        names = self.tokens.all
        found = [names[place] for place in self.token_indices.tolist()]
        return sorted(zip((-np.abs(self.ratios)).tolist(), found, range(len(found)), strict=True))

    def _compute_items(self) -> tuple[Clue, ...]:
        return self._slice(slice(None))


def strongest_indices(names: Sequence[bytes], ratios: NDArray[np.float64], limit: int) -> NDArray[np.intp]:
    """The places of the at most ``limit`` strongest votes for ham and as many for spam."""
    order = ratios.argsort()
    values = ratios[order].tolist()
    hams, spams = bisect_left(values, 0.0), len(values) - bisect_right(values, 0.0)
    # Equal ones are in any order; where the limit parts them it does so by name, the later ones speak for spam.
    if hams > limit > 0 and values[limit - 1] == values[limit]:
        _sort_ties_by_name(order, values, limit, names)
    if spams > limit > 0 and values[-limit] == values[-limit - 1]:
        _sort_ties_by_name(order, values, len(values) - limit, names)
    return np.concatenate((order[: min(hams, limit)], order[len(values) - min(spams, limit) :]))


def _sort_ties_by_name(order: NDArray[np.intp], values: list[float], at: int, names: Sequence[bytes]) -> None:
    """Put those in order that are equal to the one at ``at``."""
    first, end = bisect_left(values, values[at]), bisect_right(values, values[at])
    order[first:end] = sorted(order[first:end].tolist(), key=names.__getitem__)


def sort_by_strength(votes: Sequence[Vote]) -> list[Vote]:
    """Those that say something, strongest first, equal ones by name."""
    return sorted(filter(itemgetter(0), votes), key=lambda vote: (-abs(vote[0]), vote[1]))
