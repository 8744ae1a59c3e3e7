"""Own models in Redis: their keys, which of them there are, and their counts in the memory of this process.

Rules: an own model is loaded when it is wanted, and then follows its change stream until it is dropped: where the
cache is full, the one that was not used for the longest time. The models of a bucket share a change stream, so
that a follower waits for the same streams whichever models are in memory. Where Redis was away, or another server
answers, all are loaded anew when they are wanted; the former counts serve mail until then. A model that nobody has
taught is empty, and takes no room in Redis; mail is checked by it without a load, so that the recipients that
strangers choose take nobody's place in the cache.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from nbstream.bayes.counts import NO_CHANGE, ChangePosition, ClassCounts
from nbstream.bayes.table_counts import make_counts
from nbstream.errors import (
    NbstreamError,
    StoreIncompatible,
    StoreNotPrimary,
    StoreRefuses,
    StoreUnavailable,
)
from nbstream.filter.own_models.index import BucketKeys, ListedModels, index_key, list_model
from nbstream.policy.own_models.names import BUCKETS, bucket_of
from nbstream.policy.thresholds import PrequentialScores
from nbstream.store.cancellation import cancel_and_wait
from nbstream.store.connection import ServerGuard, client_of
from nbstream.store.follower.counts import FollowedCounts, LoadedCounts, load_counts, replay
from nbstream.store.follower.follower import Followed, RescanNeeded, position_of
from nbstream.store.redis_errors import readable_replies, store_errors

if TYPE_CHECKING:
    import ctypes

    from redis.asyncio import Redis

    from nbstream.filter import Filter
    from nbstream.store.follower.follower import StreamEntries
    from nbstream.store.model.model import Model

_log = logging.getLogger(__name__)

MAX_CHANGES = 500
"""About how many changes the stream of a bucket keeps, each of 5 kB: who is further behind loads anew."""

MAX_BYTES = 256 << 20
"""The memory of the own models of one process: hundreds of users. Others are loaded again in some milliseconds."""

MAX_HISTORY_RECORDS = 10_000
"""About how many records the history of an own model keeps."""

_MAX_MODELS = 2_000  # of the cache
_MAX_UNTAUGHT = 64  # empty ones that are kept: those of domains serve all users below
_MAX_LOADS = 8  # at the same moment, of one client
_MAX_WAITING_LOADS = 500
_LOAD_SECONDS = 10.0  # a lesson waits for its model, at most
_EMPTY_BYTES = 20_000  # of a model without tokens, measured
_BYTES_PER_TOKEN = 150  # in a dictionary
_IDLE_SECONDS = 3_600.0
_USED_SECONDS = 3_600.0  # between two notes that a model is used


class OwnCounts(FollowedCounts):
    """The counts of one own model in memory. ``model`` is where its lessons are stored."""

    def __init__(self, model: Model, loaded: LoadedCounts) -> None:
        super().__init__(model)
        self.begin_with(loaded)
        self.is_current = True
        self.used_at = time.monotonic()
        self.noted_at = 0.0
        self.bytes_used = self._measure()
        """About how many bytes of memory the counts take since the last change."""
        self.filter: tuple[tuple[object, ...], Filter] | None = None
        """The filter that was made of these counts, and what it was made of besides: ``own_models.filters``."""

    def _measure(self) -> int:
        """Return how many bytes the counts take; that is too slow to ask all models for at each load."""
        counts = self.in_memory
        table = counts.native_table
        return _EMPTY_BYTES + (table.describe().bytes_used if table else _BYTES_PER_TOKEN * counts.distinct_tokens)

    async def apply(self, entries: StreamEntries) -> None:
        """Apply the next changes of the model."""
        await super().apply(entries)
        self.bytes_used = self._measure()

    def skip_to(self, position: ChangePosition) -> None:
        """Note that no change of the bucket up to ``position`` is one of this model that it lacks."""
        if self.position < position:
            self.position = self._loaded_counts().position = position
            self._wake_waiters()


class BucketFollower(Followed):
    """The change stream of one bucket, whose ``models`` in memory follow it; ``drop`` forgets one of them."""

    def __init__(self, keys: BucketKeys, client: Redis, drop: Callable[[str], None]) -> None:
        super().__init__(keys.changes)
        self.client = client_of(client, keys.changes)
        self.wanted = asyncio.Event()
        """Whether anybody has wanted a model of the bucket."""
        self._drop = drop
        self.models: dict[str, OwnCounts] = {}
        self.losses = 0
        """How often Redis was away, or may have gone another way."""

    async def load(self) -> None:
        """Note where the stream ends: models are loaded when they are wanted."""
        with store_errors():
            entries: Any = await self.client.xrevrange(self.stream, count=1)
        self.position = position_of(*entries[0]) if entries else NO_CHANGE
        for counts in self.models.values():
            if not counts.is_current or counts.position < self.position:
                counts.end()

    async def apply(self, entries: StreamEntries) -> None:
        """Apply each change to the model that it names; where one is missing before it, all are loaded anew."""
        for entry_id, fields in entries:
            before, self.position = self.position, position_of(entry_id, fields)
            name = fields.get(b"model", b"").decode()
            if fields.get(b"predecessor") != before.stream_id:
                self._drop_those_before(self.position)
            elif (counts := self.models.get(name)) and counts.is_current:
                try:
                    counts.skip_to(before)
                    await counts.apply([(entry_id, fields)])
                except RescanNeeded as error:
                    _log.debug("own model %s: %s", name, error)
                    self._drop(name)
        for counts in self.models.values():
            if counts.is_current:
                counts.skip_to(self.position)

    def _drop_those_before(self, position: ChangePosition) -> None:
        for name, counts in [*self.models.items()]:
            if counts.is_current and counts.position < position:
                self._drop(name)

    def lose(self) -> None:
        """Have the models loaded anew when they are wanted; their former counts serve until then."""
        super().lose()
        self.losses += 1
        for counts in self.models.values():
            counts.is_current = False


class OwnModels:
    """The own models that this process has in memory.

    ``make_model`` returns the own model of a name below the common model ``model``, whose client is ``client``.
    Counts are in tables of the native ``library`` where there is one. At most ``max_bytes`` are kept.
    """

    def __init__(
        self,
        make_model: Callable[[str], Model],
        client: Redis,
        model: str,
        *,
        max_bytes: int = MAX_BYTES,
        library: ctypes.CDLL | None = None,
    ) -> None:
        self._make_model = make_model
        self._client = client
        self._index = index_key(model)
        self._max_bytes = max_bytes
        self._library = library
        self._cached: OrderedDict[str, OwnCounts] = OrderedDict()
        self._loading: dict[str, asyncio.Task[OwnCounts]] = {}
        self.listed = ListedModels(client, self._index)
        """The copy of the list of those that were taught."""

        @lru_cache(_MAX_UNTAUGHT)
        def make_untaught(name: str) -> OwnCounts:
            nothing = LoadedCounts(make_counts(library), ClassCounts(), PrequentialScores(), NO_CHANGE)
            return OwnCounts(make_model(name), nothing)

        self._make_untaught = make_untaught
        self.buckets = [BucketFollower(BucketKeys(model, n), client, self.drop) for n in range(BUCKETS)]
        """What keeps the models in memory equal to Redis."""
        self._slots = {bucket.client: asyncio.Semaphore(_MAX_LOADS) for bucket in self.buckets}
        self._signed: set[str] = set()
        self._has_said_incompatible = False
        self.loads = 0
        """How often an own model was loaded."""

    @property
    def cached(self) -> int:
        """The number of own models in memory."""
        return len(self._cached)

    @property
    def bytes_used(self) -> int:
        """About how many bytes of memory they take."""
        return sum(counts.bytes_used for counts in self._cached.values())

    def find(self, name: str) -> OwnCounts | None:
        """Return the counts of the own model if they are in memory and follow Redis."""
        counts = self.find_former(name)
        return counts if counts and counts.is_current else None

    def find_former(self, name: str) -> OwnCounts | None:
        """Return the counts in memory, even where they are those of before Redis was away."""
        counts = self._cached.get(name)
        if counts is None:
            return None
        self._cached.move_to_end(name)
        counts.used_at = time.monotonic()
        return counts

    def untaught(self, name: str) -> OwnCounts | None:
        """Return empty counts for an own model that nobody has taught, and that takes no place; else None."""
        if self.listed.may_have(name):
            return None
        return self._make_untaught(name)

    async def load(self, name: str, wait_seconds: float = _LOAD_SECONDS) -> OwnCounts:
        """Return the counts of the own model, from memory or from Redis.

        Where that takes longer than ``wait_seconds`` it goes on for those who ask later. Raises
        ``StoreUnavailable``, and ``StoreIncompatible`` for counts that this program cannot use.
        """
        if counts := self.find(name):
            return counts
        loading = self._loading.get(name)
        if loading is None:
            if len(self._loading) >= _MAX_WAITING_LOADS:
                raise StoreUnavailable("too many own models are being loaded")
            loading = self._loading[name] = asyncio.create_task(self._load(name), name=f"load {name}")
            loading.add_done_callback(lambda task: self._end_load(name, task))
        try:
            async with asyncio.timeout(wait_seconds):
                return await asyncio.shield(loading)
        except TimeoutError as error:
            raise StoreUnavailable("the own model is not loaded yet") from error

    async def load_for_lesson(self, name: str) -> OwnCounts:
        """Return the counts of the own model, which is signed and listed from now on. Raises as ``load``."""
        if name in self._signed and self.find(name):
            return await self.load(name)
        with readable_replies():
            await self._make_model(name).open(sign=True)
        await list_model(self._client, self._index, name)
        self.listed.add(name)
        counts = await self.load(name)
        if name in self._cached:  # and so it is followed, and what removes the model is noticed
            self._signed.add(name)
        return counts

    def drop(self, name: str) -> None:
        """Forget the counts in memory; they are loaded again when somebody wants them."""
        if dropped := self._cached.pop(name, None):
            dropped.filter = None  # it has the counts: their memory would wait for the garbage collector
            dropped.end()
            del self.buckets[bucket_of(name)].models[name]
        self._signed.discard(name)

    async def _load(self, name: str) -> OwnCounts:
        bucket = self.buckets[bucket_of(name)]
        bucket.wanted.set()
        async with self._slots[bucket.client]:
            guard, losses = ServerGuard(bucket.client), bucket.losses
            try:
                with readable_replies():
                    model = await self._make_model(name).open(sign=False)
                    loaded = await load_counts(model, self._library, has_automatic=False)
                    if loaded.position < bucket.position:  # the bucket went on meanwhile
                        await replay(model, loaded)
            except RescanNeeded as error:
                raise StoreUnavailable("the own model changed while it was being loaded: try again") from error
            guard.check()
            self.loads += 1
            counts = OwnCounts(model, loaded)
            if bucket.losses == losses and loaded.position >= bucket.position:
                self.drop(name)
                self._cached[name] = bucket.models[name] = counts
                self._make_room()
            else:  # it is of use for one message, and nobody follows it
                counts.end()
            return counts

    def _end_load(self, name: str, task: asyncio.Task[OwnCounts]) -> None:
        self._loading.pop(name, None)
        if task.cancelled() or not (error := task.exception()):
            return
        level = logging.DEBUG if isinstance(error, NbstreamError) else logging.ERROR
        if isinstance(error, StoreIncompatible) and not self._has_said_incompatible:
            level, self._has_said_incompatible = logging.WARNING, True  # once, not for each message of that user
        _log.log(level, "the own model %s cannot be loaded: %s", name, error)

    def _make_room(self) -> None:
        used = self.bytes_used
        while len(self._cached) > 1 and (used > self._max_bytes or len(self._cached) > _MAX_MODELS):
            name, dropped = next(iter(self._cached.items()))
            used -= dropped.bytes_used
            self.drop(name)

    async def close(self) -> None:
        """Load nothing any more."""
        for loading in [*self._loading.values()]:
            await cancel_and_wait(loading)

    async def look(self) -> None:
        """Look which of the models are used: a step that is repeated from time to time."""
        self._drop_idle()
        await self._note_use()

    def _drop_idle(self) -> None:
        oldest = time.monotonic() - _IDLE_SECONDS
        for name in [name for name, counts in self._cached.items() if counts.used_at < oldest]:
            self.drop(name)

    async def _note_use(self) -> None:
        """Note in the index which of the models that were taught are in use."""
        now = time.monotonic()
        due = {
            name: counts
            for name, counts in self._cached.items()
            if counts.is_current and counts.used_at > counts.noted_at and now - counts.noted_at > _USED_SECONDS
        }
        if not due:
            return
        try:
            with store_errors():
                await self._client.zadd(self._index, dict.fromkeys(due, time.time()), xx=True)
        except StoreUnavailable as error:
            _log.debug("cannot record the use of own models: %s", error)
            if isinstance(error, StoreNotPrimary) or not isinstance(error, StoreRefuses):
                return
        for counts in due.values():  # what is stored can be read and followed even where Redis refuses to write
            counts.noted_at = now
