"""The sweeper: keeps a model's vocabulary within a limit by forgetting the tokens that will be missed least.

Rules. It begins when the mirror holds more than ``START_SHARE`` of the limit, and ends at ``TARGET_SHARE`` of it:
what a flood brings while the tokens are chosen has room within the limit, and a tenth beyond the surplus is chosen
for what comes after. What is below zero goes first. Then go tokens that were not touched for as long as the ledger
remembers: those in no live entry, since every learn writes its entry anew. If that is not enough, tokens with the
smallest sum of counts go, equal ones in the order of their first ``_COMPARED_BYTES`` bytes. Sums stay.

The tokens are chosen from the mirror, then the ledger is read, then Redis is told tokens and counts: what was
taught since has other counts and stays. Steps are small, for Redis does nothing else meanwhile, and some go out at
once, for a writer of many new tokens must not outrun them. Each change is in the stream, so every mirror drops the
same tokens, and two daemons that sweep at once do no harm.

What stays exact: totals are the sums of the counts and the vocabulary is their number, always; learn and unlearn
of every token that was not forgotten in between. Unlearning a message some of whose tokens were forgotten makes
counts below zero. They are read as 0, and the next sweep takes them away; until then they also swallow as much of
what is learned of the same token.
"""

from __future__ import annotations

import asyncio
import logging
import time
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from nbstream.bayes.counts import is_sum
from nbstream.errors import NbstreamError
from nbstream.store.cancellation import stop_if_cancelled
from nbstream.store.model import ledger

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from nbstream.store.model.model import Model
    from nbstream.store.replica.mirror import Mirror

_log = logging.getLogger(__name__)

START_SHARE = 0.95
"""The share of the limit beyond which a sweep begins."""

TARGET_SHARE = 0.85
"""The share of the limit that a sweep leaves: the next one is a tenth of the limit away."""

_SPARE_SHARE = 0.1  # of the limit: so many are chosen beyond the surplus
_TOKENS_PER_STEP = 250  # tokens: 0.9 ms of Redis in a model of 600,000, of 500 tokens 1.5 ms
_CONCURRENT_STEPS = 4  # at once
_COMPARED_BYTES = 24
_RETRY_SECONDS = 1.0  # a flood goes on meanwhile
_NOTHING_SECONDS = 10.0  # as after a failover, until the mirror has loaded what is left


class Evictor:
    """Keeps the tokens that ``mirror`` holds, which follows the model, within ``limit``.

    ``evicted`` is told at each step how many tokens went.
    """

    def __init__(self, model: Model, mirror: Mirror, limit: int, evicted: Callable[[int], object]) -> None:
        self._model = model
        self._mirror = mirror
        self._limit = limit
        self._on_evicted = evicted

    async def run(self) -> None:
        """Sweep whenever it is time, until cancelled; the first of failures in a row is logged."""
        failing = False
        while True:
            stop_if_cancelled()
            await self._mirror.wait_for_more_tokens(int(START_SHARE * self._limit))
            try:
                pause = 0.0 if await self.evict_once() else _NOTHING_SECONDS
                failing = False
            except NbstreamError as error:
                if not failing:
                    _log.warning("the vocabulary reaches model.max_tokens, and the sweep failed: %s", error)
                pause, failing = _RETRY_SECONDS, True
            stop_if_cancelled()
            await asyncio.sleep(pause)

    async def evict_once(self) -> int:
        """Sweep once; the number of tokens that went or were mended. Raises ``StoreUnavailable``."""
        started = time.monotonic()
        held = await asyncio.to_thread(EvictionCandidates, *self._mirror.snapshot())
        mended = await self._evict_tokens(held, np.flatnonzero(held.below_zero), None)
        held.clip_counts_below_zero()
        goal = int(TARGET_SHARE * self._limit)
        surplus = held.vocabulary - goal
        evicted = 0
        if surplus > 0:
            async for packed in self._model.ledger_tokens():
                await asyncio.to_thread(held.mark_live, packed)
            chosen = await asyncio.to_thread(held.least_missed, surplus + int(_SPARE_SHARE * self._limit))
            evicted = await self._evict_tokens(held, chosen, goal)
        fields = {
            "evicted": evicted,
            "below_zero": mended,
            "live": int(held.live.sum()),
            "vocabulary": self._mirror.vocabulary_size,
            "seconds": round(time.monotonic() - started, 1),
        }
        _log.info("swept", extra={"fields": fields})
        return evicted + mended

    async def _evict_tokens(self, held: EvictionCandidates, chosen: NDArray[np.intp], goal: int | None) -> int:
        """Forget the tokens at these places, in their order, until ``goal`` is reached or all are gone.

        Returns how many went, when the mirror has forgotten them too.
        """
        forgotten, first = 0, 0
        while first < len(chosen):
            stop_if_cancelled()
            surplus = len(chosen) if goal is None else self._mirror.vocabulary_size - goal
            places = chosen[first : first + max(0, min(surplus, _TOKENS_PER_STEP * _CONCURRENT_STEPS))]
            if not len(places):
                break
            steps = [places[start : start + _TOKENS_PER_STEP] for start in range(0, len(places), _TOKENS_PER_STEP)]
            # So it returns only when all have ended: a step that fails leaves none of the others running.
            ended = await asyncio.gather(
                *(self._evict_step(held, each, goal) for each in steps), return_exceptions=True
            )
            for each in ended:
                if isinstance(each, BaseException):
                    raise each
                forgotten += each
            first += len(places)
        return forgotten

    async def _evict_step(self, held: EvictionCandidates, places: NDArray[np.intp], goal: int | None) -> int:
        tokens = [held.tokens[place] for place in places.tolist()]
        done = await self._model.evict(tokens, held.counts[places], goal)
        if not done:
            return 0
        change, forgotten = done
        if goal is not None:
            self._on_evicted(forgotten)
        await self._mirror.wait_until_applied(change)
        return forgotten


class EvictionCandidates:
    """The tokens that were held at one moment, with their counts, and which of them are in live ledger entries.

    Tokens are found again by their hash, 8 bytes each: what it takes is bounded by the tokens held, not by the
    ledger.
    """

    def __init__(self, names: Sequence[bytes], counts: NDArray[np.int64]) -> None:
        kept = [place for place, name in enumerate(names) if not is_sum(name)]
        self.tokens = [names[place] for place in kept]
        self.counts = counts[kept]
        self.live = np.zeros(len(kept), dtype=np.bool_)
        hashes = np.fromiter(map(hash, self.tokens), np.int64, len(kept))
        self._hash_order = np.argsort(hashes)
        self._sorted_hashes = hashes[self._hash_order]

    @property
    def below_zero(self) -> NDArray[np.bool_]:
        """Which tokens have a count below zero."""
        below: NDArray[np.bool_] = np.any(self.counts < 0, axis=1)
        return below

    def clip_counts_below_zero(self) -> None:
        """Take counts below zero for 0."""
        np.maximum(self.counts, 0, out=self.counts)

    @property
    def vocabulary(self) -> int:
        """The number of tokens that have a count above zero."""
        return int((self.counts > 0).any(axis=1).sum())

    def mark_live(self, packed: Sequence[bytes]) -> None:
        """Note the tokens of ledger entries, each ``packed`` as it is stored."""
        tokens = chain.from_iterable(map(ledger.unpack_tokens, packed))
        hashes = np.fromiter(map(hash, tokens), np.int64)
        places = np.searchsorted(self._sorted_hashes, hashes)
        places[places == len(self._sorted_hashes)] = 0
        self.live[self._hash_order[places[self._sorted_hashes[places] == hashes]]] = True

    def least_missed(self, number: int) -> NDArray[np.intp]:
        """The places of so many tokens with a count above zero, those that will be missed least first."""
        # Sorting in numpy lets other threads work; sorting half a million Python objects would not.
        known = np.flatnonzero((self.counts > 0).any(axis=1))
        names = np.array([self.tokens[place] for place in known.tolist()], dtype=f"S{_COMPARED_BYTES}")
        order = np.lexsort((names, self.counts[known].sum(axis=1), self.live[known]))
        return known[order[:number]]
