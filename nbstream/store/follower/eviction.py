"""The evictor: it keeps the number of a model's tokens within a limit, and removes the least useful ones first.

Rules. An eviction begins when the counts in memory have more tokens than ``START_SHARE`` of the limit, and it ends
when ``TARGET_SHARE`` of the limit is left. For example, with a limit of 1,000,000 tokens an eviction begins at
950,000 and ends at 850,000. While it selects tokens, a flood of mail may bring new ones. There is room for 50,000
of them up to the limit, and the eviction selects 100,000 tokens more than it has to remove, to have candidates for
the new ones too. It removes tokens in this order:

1. tokens with a count below zero;
2. tokens in no live ledger entry: no message that was learned in the last ``model.ledger_days`` contains them,
   because each learn writes the entry of its message anew;
3. all other tokens, the smallest sum of counts first; tokens with equal sums in the order of their first
   ``_COMPARED_BYTES`` bytes.

Sums (``=name``) are never evicted.

The tokens are selected from the counts in memory, then the ledger is read, then Redis gets the tokens together
with the counts that they had: a token that was learned since has other counts and stays. Steps are small, because
Redis does nothing else during a step. Each step is a change in the stream, so every process drops the same tokens,
and two daemons that evict at once do no harm.

What stays exact: the totals are always the sums of the counts, and the vocabulary is always their number; learning
and unlearning are exact for every token that was not forgotten in between. Unlearning a message of which some
tokens were forgotten makes counts below zero. Such counts are read as 0, and the next eviction removes them. Until
then they hide new lessons: if a count is -2, the next two messages with this token only bring it back to 0.
"""

from __future__ import annotations

import asyncio
import logging
import time
from itertools import chain
from typing import TYPE_CHECKING

from nbstream.bayes.columns import is_automatic
from nbstream.bayes.counts import is_sum
from nbstream.logs import event_fields
from nbstream.numpy_on_demand import np
from nbstream.store.model import ledger
from nbstream.store.redis_errors import readable_replies

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from nbstream.store.follower.counts import FollowedCounts
    from nbstream.store.model.model import Model

_log = logging.getLogger(__name__)

START_SHARE = 0.95
"""The share of the limit beyond which an eviction begins."""

TARGET_SHARE = 0.85
"""The share of the limit that an eviction leaves: the next one begins a tenth of the limit later."""

_SPARE_SHARE = 0.1  # of the limit: how many more tokens are selected than the surplus
_TOKENS_PER_STEP = 250  # 0.9 ms of Redis in a model of 600,000 tokens; 500 would be 1.5 ms
_COMPARED_BYTES = 24
_NOTHING_SECONDS = 10.0  # as after a failover, until what is left has been loaded


class Evictor:
    """Keeps the number of tokens in ``counts``, which follow ``model``, within ``limit``.

    The tokens that people taught have this limit, and so have those that were learned without them.
    ``on_evicted`` is called at each step with the number of tokens that were forgotten.
    """

    def __init__(
        self, model: Model, counts: FollowedCounts, limit: int, on_evicted: Callable[[int], object]
    ) -> None:
        self._model = model
        self._counts = counts
        self._limit = limit
        self._on_evicted = on_evicted

    async def step(self) -> None:
        """Wait until it is necessary to evict tokens, and evict once. Raises ``StoreUnavailable``."""
        too_many = await self._counts.wait_for_more_tokens(int(START_SHARE * self._limit))
        with readable_replies():
            evicted = [await self.evict_once(automatic=automatic) for automatic in too_many]
        if not any(evicted):
            await asyncio.sleep(_NOTHING_SECONDS)

    async def evict_once(self, *, automatic: bool = False) -> int:
        """Evict once and return the number of tokens that were forgotten or mended.

        A mended token had a count below zero and has none now. ``automatic``: of the tokens that were learned
        without people. Raises ``StoreUnavailable``.
        """
        started, counts = time.monotonic(), self._counts.group(automatic=automatic)
        columns = counts.column_totals.columns
        snapshot = counts.snapshot_columns()  # here, where changes are applied, and in no other thread
        candidates = await asyncio.to_thread(EvictionCandidates, *snapshot, columns)
        mended = await self._evict_tokens(candidates, np.flatnonzero(candidates.below_zero), None)
        np.maximum(candidates.counts, 0, out=candidates.counts)
        target_size = int(TARGET_SHARE * self._limit)
        surplus = candidates.vocabulary_size - target_size
        evicted = 0
        if surplus > 0:
            async for packed_tokens in self._model.ledger_tokens(columns):
                await asyncio.to_thread(candidates.mark_live, packed_tokens)
            number = surplus + int(_SPARE_SHARE * self._limit)
            indices = await asyncio.to_thread(candidates.least_useful, number)
            evicted = await self._evict_tokens(candidates, indices, target_size)
        _log.info(
            "swept",
            extra=event_fields(
                evicted=evicted,
                below_zero=mended,
                live=int(candidates.live.sum()),
                vocabulary=self._vocabulary_size(automatic),
                seconds=round(time.monotonic() - started, 1),
            ),
        )
        return evicted + mended

    def _vocabulary_size(self, automatic: bool) -> int:
        return self._counts.group(automatic=automatic).totals.vocabulary_size

    async def _evict_tokens(
        self, candidates: EvictionCandidates, indices: NDArray[np.intp], target_size: int | None
    ) -> int:
        """Forget the candidates at ``indices``, in their order, until ``target_size`` is reached or all are done.

        With None for ``target_size`` only counts below zero are removed. Returns how many tokens were forgotten,
        when the counts in memory have forgotten them too.
        """
        forgotten, columns = 0, candidates.columns
        for first in range(0, len(indices), _TOKENS_PER_STEP):
            if target_size is not None and self._vocabulary_size(is_automatic(columns[0])) <= target_size:
                break
            step = indices[first : first + _TOKENS_PER_STEP]
            tokens = [candidates.tokens[index] for index in step.tolist()]
            eviction = await self._model.evict(tokens, candidates.counts[step], target_size, columns)
            if eviction:
                forgotten += eviction.tokens
                if target_size is not None:
                    self._on_evicted(eviction.tokens)
                await self._counts.wait_until_applied(eviction.change)
        return forgotten


class EvictionCandidates:
    """The tokens among ``names``, their counts in ``columns``, and which are in live ledger entries.

    Tokens of the ledger are looked up by their hash, 8 bytes each: the memory is bounded by the tokens of the
    counts, not by the ledger.
    """

    def __init__(self, names: Sequence[bytes], rows: NDArray[np.int64], columns: Sequence[str]) -> None:
        self.columns = columns
        token_indices = [index for index, name in enumerate(names) if not is_sum(name)]
        self.tokens = [names[index] for index in token_indices]
        self.counts = rows[token_indices]
        self.live = np.zeros(len(self.tokens), dtype=np.bool_)
        hashes = np.fromiter(map(hash, self.tokens), np.int64, len(self.tokens))
        self._hash_order = np.argsort(hashes)
        self._sorted_hashes = hashes[self._hash_order]

    @property
    def below_zero(self) -> NDArray[np.bool_]:
        """Which tokens have a count below zero, shape (tokens,)."""
        below: NDArray[np.bool_] = np.any(self.counts < 0, axis=1)
        return below

    @property
    def vocabulary_size(self) -> int:
        """The number of tokens that have a count above zero."""
        return int((self.counts > 0).any(axis=1).sum())

    def mark_live(self, packed_tokens: Sequence[bytes]) -> None:
        """Note that the tokens of some ledger entries are live; ``packed_tokens`` is one field for each entry."""
        tokens = chain.from_iterable(map(ledger.unpack_tokens, packed_tokens))
        hashes = np.fromiter(map(hash, tokens), np.int64)
        positions = np.searchsorted(self._sorted_hashes, hashes)
        positions[positions == len(self._sorted_hashes)] = 0
        self.live[self._hash_order[positions[self._sorted_hashes[positions] == hashes]]] = True

    def least_useful(self, number: int) -> NDArray[np.intp]:
        """Return the indices of at most ``number`` tokens with a count above zero, the least useful first."""
        # numpy sorts without the interpreter's lock, so other threads go on; Python's own sort would stop them.
        present = np.flatnonzero((self.counts > 0).any(axis=1))
        names = np.array([self.tokens[index] for index in present.tolist()], dtype=f"S{_COMPARED_BYTES}")
        order = np.lexsort((names, self.counts[present].sum(axis=1), self.live[present]))
        return present[order[:number]]
