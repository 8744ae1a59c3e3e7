"""Own models in Redis: their keys, which of them there are, and their counts in the memory of this process.

Rules: an own model is loaded when it is wanted, and then follows its change stream until it is dropped: where the
cache is full, the one that was not used for the longest time. One connection waits for the changes of all of them.
Where Redis was away, or another server answers, all are loaded anew when they are wanted; the former counts serve
mail until then. A model that nobody has taught is empty, and takes no room in Redis; mail is checked by it without
a load, so that the recipients that strangers choose take nobody's place in the cache.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nbstream.bayes.counts import CLASSES, NO_CHANGE, ChangePosition
from nbstream.bayes.table_counts import make_counts
from nbstream.errors import (
    NbstreamError,
    StoreIncompatible,
    StoreNotPrimary,
    StoreRefuses,
    StoreUnavailable,
)
from nbstream.own_models.listing import ListedModels, list_model
from nbstream.own_models.names import bucket_of
from nbstream.policy.prequential_scores import PrequentialScores
from nbstream.store.backoff import Backoff
from nbstream.store.cancellation import cancel_and_wait, stop_if_cancelled
from nbstream.store.connection import ServerGuard
from nbstream.store.mirror.loading import READ_COUNT, LoadedCounts, RescanNeeded, load_counts
from nbstream.store.mirror.mirror import entries_by_stream
from nbstream.store.model.keys import ModelKeys
from nbstream.store.redis_errors import readable_replies, store_errors

if TYPE_CHECKING:
    import ctypes
    from collections.abc import Mapping

    from numpy.typing import NDArray
    from redis.asyncio import Redis

    from nbstream.bayes.counts import Totals
    from nbstream.engine.table import Table
    from nbstream.filter import Filter
    from nbstream.store.mirror.mirror import StreamEntries
    from nbstream.store.model.model import Model

_log = logging.getLogger(__name__)

MAX_CHANGES = 20
"""About how many changes the change stream of an own model keeps: a process that is further behind loads anew."""

MAX_BYTES = 256 << 20
"""The memory of the own models of one process: hundreds of users. Others are loaded again in some milliseconds."""

MAX_HISTORY_RECORDS = 10_000
"""About how many records the history of an own model keeps."""

_NO_ROWS = np.zeros((0, len(CLASSES)), np.int64)
_BLOCK_SECONDS = 0.25  # a model that was loaded meanwhile is followed from then on
_MAX_MODELS = 2_000  # of the cache: so many streams are waited for at once
_MAX_UNTAUGHT = 64  # empty ones that are kept: those of domains serve all users below
_MAX_LOADS = 8  # at the same moment
_MAX_WAITING_LOADS = 500
_LOAD_SECONDS = 10.0  # a lesson waits for its model, at most
_EMPTY_BYTES = 20_000  # of a model without tokens, measured
_BYTES_PER_TOKEN = 150  # in a dictionary
_IDLE_SECONDS = 3_600.0
_USED_SECONDS = 3_600.0  # between two notes that a model is used


@dataclass(frozen=True, slots=True)
class OwnModelKeys(ModelKeys):
    """The keys of the own model ``name`` below ``model``; all of them share a hash tag."""

    name: str

    def _key(self, name: str) -> str:
        return f"nbstream:{{{self.model}/{bucket_of(self.name)}}}:{self.name}:{name}"

    @property
    def log_name(self) -> str:
        """The name of the counts in the log."""
        return f"counts of {self.name}"


def all_keys_pattern(model: str) -> str:
    """Return the pattern of a SCAN that matches the keys of all own models below ``model``, and no others."""
    return f"nbstream:{{{model}/*}}:*"


class OwnCounts:
    """The counts of one own model in memory: a ``CountSource``. ``model`` is where its lessons are stored."""

    def __init__(self, model: Model, loaded: LoadedCounts) -> None:
        self.model = model
        self._loaded = loaded
        self.used_at = time.monotonic()
        self.noted_at = 0.0
        self.is_current = True
        """Whether the counts follow Redis; where it was away, they are the former ones from then on."""
        self.bytes_used = self._measure()
        """About how many bytes of memory the counts take since the last change."""
        self._last_totals: tuple[ChangePosition, Totals] | None = None
        self.filter: tuple[tuple[object, ...], Filter] | None = None
        """The filter that was made of these counts, and what it was made of besides: ``own_models.filters``."""

    @property
    def position(self) -> ChangePosition:
        """The last change that is in the counts."""
        return self._loaded.position

    def _measure(self) -> int:
        """Return how many bytes the counts take; that is too slow to ask all models for at each load."""
        table = self._loaded.counts.native_table
        return _EMPTY_BYTES + (
            table.describe().bytes_used if table else _BYTES_PER_TOKEN * len(self._loaded.counts)
        )

    @property
    def native_table(self) -> Table | None:
        """The table of the native library that has the counts, if there is one."""
        return self._loaded.counts.native_table

    @property
    def totals(self) -> Totals:
        """The totals as they are in memory."""
        position = self._loaded.position
        if self._last_totals is None or self._last_totals[0] is not position:
            self._last_totals = position, self._loaded.counts.totals
        return self._last_totals[1]

    async def look_up(self, tokens: Sequence[bytes]) -> tuple[NDArray[np.int64], Totals]:
        """Return the counts of ``tokens`` or sums, shape (n, classes), and the totals; never waits."""
        if not tokens:  # as for each message that asks whether anything was taught
            return _NO_ROWS, self.totals
        return self._loaded.counts.look_up_with_totals(tokens)

    async def sums(self, names: tuple[bytes, ...]) -> NDArray[np.int64]:
        """Return the counts of these sums, shape (n, classes): the very same array until one of them changes."""
        return self._loaded.counts.sums(names)

    async def prequential_scores(self) -> PrequentialScores:
        """Return the P(spam) that recent messages had before their first label."""
        return self._loaded.prequential_scores

    async def wait_until_applied(self, change: bytes) -> None:
        """Return when ``look_up`` shows the change with this stream id. Raises ``StoreUnavailable``."""
        wanted = ChangePosition.of(change)
        while self.position < wanted:
            with store_errors():
                start = b"(" + self.position.stream_id
                entries: Any = await self.model.client.xrange(self.model.keys.changes, min=start, count=READ_COUNT)
            if not entries and self.position < wanted:
                raise StoreUnavailable("the change is stored, but the counts in memory do not follow Redis")
            try:
                self.apply(entries)
            except RescanNeeded as error:
                raise StoreUnavailable(
                    "the change is stored, but the counts in memory do not follow Redis"
                ) from error

    def apply(self, entries: StreamEntries) -> None:
        """Apply the entries of the change stream that are not in the counts yet. Raises ``RescanNeeded``."""
        for entry_id, fields in entries:
            if ChangePosition.of(entry_id) > ChangePosition.of(self.position.stream_id):
                self._loaded.apply(entry_id, fields)
        self.bytes_used = self._measure()


class OwnModels:
    """The own models that this process has in memory.

    ``make_model`` returns the own model of a name, with ``client`` as its client; ``blocking_client`` waits for
    changes. ``index`` is the key that lists the models. Counts are in tables of the native
    ``library`` where there is one. At most ``max_bytes`` are kept.
    """

    def __init__(
        self,
        make_model: Callable[[str], Model],
        client: Redis,
        blocking_client: Redis,
        *,
        index: str,
        max_bytes: int = MAX_BYTES,
        library: ctypes.CDLL | None = None,
    ) -> None:
        self._make_model = make_model
        self._client = client
        self._blocking_client = blocking_client
        self._index = index
        self._max_bytes = max_bytes
        self._library = library
        self._cached: OrderedDict[str, OwnCounts] = OrderedDict()
        self._loading: dict[str, asyncio.Task[OwnCounts]] = {}
        self._slots = asyncio.Semaphore(_MAX_LOADS)
        self._listed = ListedModels(client, index)
        self._untaught: OrderedDict[str, OwnCounts] = OrderedDict()
        self._epoch = 0
        self._is_wanted = asyncio.Event()
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
        self._is_wanted.set()
        if self._listed.may_have(name):
            return None
        if name not in self._untaught:
            nothing = LoadedCounts(make_counts(self._library), PrequentialScores(), NO_CHANGE)
            self._untaught[name] = OwnCounts(self._make_model(name), nothing)
            if len(self._untaught) > _MAX_UNTAUGHT:
                self._untaught.popitem(last=False)
        self._untaught.move_to_end(name)
        return self._untaught[name]

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
        if name in self._signed:
            return await self.load(name)
        with readable_replies():
            await self._make_model(name).open(sign=True)
        await list_model(self._client, self._index, name)
        self._listed.add(name)
        counts = await self.load(name)
        if name in self._cached:  # and so it is followed, and what removes the model is noticed
            self._signed.add(name)
        return counts

    def drop(self, name: str) -> None:
        """Forget the counts in memory; they are loaded again when somebody wants them."""
        if dropped := self._cached.pop(name, None):
            dropped.filter = None  # it has the counts: their memory would wait for the garbage collector
        self._signed.discard(name)

    async def _load(self, name: str) -> OwnCounts:
        async with self._slots:
            epoch, guard = self._epoch, ServerGuard(self._client)
            try:
                with readable_replies():
                    model = await self._make_model(name).open(sign=False)
                    counts = OwnCounts(model, await load_counts(model, self._library))
            except RescanNeeded as error:
                raise StoreUnavailable("the own model was changed while it was loaded: try again") from error
            guard.check()
            self.loads += 1
            if epoch == self._epoch:
                self.drop(name)
                self._cached[name] = counts
                self._make_room()
                self._is_wanted.set()
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

    async def run(self) -> None:
        """Keep the counts in memory equal to Redis until cancelled; then nothing is loaded any more."""
        backoff = Backoff(draw=random.random)
        try:
            while True:
                stop_if_cancelled()
                try:
                    with readable_replies():
                        await self._follow(backoff)
                except NbstreamError as error:
                    _log.debug("own models: %s", error)
                    self._stop_following()
                    await asyncio.sleep(backoff.next_wait())
        except asyncio.CancelledError:
            for loading in [*self._loading.values()]:
                await cancel_and_wait(loading)
            raise
        finally:
            self._stop_following()

    def _stop_following(self) -> None:
        """Have all models loaded anew when they are wanted; their former counts serve until then."""
        self._epoch += 1
        for counts in self._cached.values():
            counts.is_current = False
        self._signed.clear()
        self._listed.forget()

    async def _follow(self, backoff: Backoff) -> None:
        guard = ServerGuard(self._blocking_client)
        while True:
            stop_if_cancelled()
            self._drop_idle()
            await self._is_wanted.wait()
            if not self._listed.is_known:
                await self._listed.read()
            followed = self._followed()
            places: dict[Any, Any] = {key: self._cached[name].position.stream_id for key, name in followed.items()}
            places[self._listed.key] = self._listed.position
            with store_errors():
                streams: Any = await self._blocking_client.xread(
                    places, count=READ_COUNT, block=round(1000 * _BLOCK_SECONDS)
                )
            guard.check()
            backoff.reset()
            for key, entries in entries_by_stream(streams):
                if key == self._listed.key:
                    await self._listed.apply(entries)
                else:
                    self._apply(followed[key], entries)
                await asyncio.sleep(0)  # one that was taught very much takes some milliseconds
            await self._note_use()

    def _followed(self) -> Mapping[bytes, str]:
        """Return the names of the models to follow, by the keys of their change streams."""
        return {
            counts.model.keys.changes.encode(): name for name, counts in self._cached.items() if counts.is_current
        }

    def _apply(self, name: str, entries: StreamEntries) -> None:
        counts = self._cached.get(name)
        if counts is None or not counts.is_current:
            return
        try:
            counts.apply(entries)
        except RescanNeeded as error:
            _log.debug("own model %s: %s", name, error)
            self.drop(name)

    def _drop_idle(self) -> None:
        oldest = time.monotonic() - _IDLE_SECONDS
        for name in [name for name, counts in self._cached.items() if counts.used_at < oldest]:
            self.drop(name)

    async def _note_use(self) -> None:
        """Note in the index which of the models that were taught are in use."""
        now = time.monotonic()
        due = [
            (name, counts)
            for name, counts in self._cached.items()
            if counts.is_current and counts.used_at > counts.noted_at and now - counts.noted_at > _USED_SECONDS
        ]
        if not due:
            return
        try:
            with store_errors():
                await self._client.zadd(
                    self._index, dict.fromkeys((name for name, _ in due), time.time()), xx=True
                )
        except StoreNotPrimary:
            raise
        except StoreRefuses as error:  # what is stored can be read and followed all the same
            _log.debug("the use of own models is not noted: %s", error)
        for _, counts in due:
            counts.noted_at = now
