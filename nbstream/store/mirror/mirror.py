"""The mirror: class counts in memory that follow the change stream, so that scoring never waits for Redis.

Rules, each shown by a test: a gap in the numbers of the changes (the stream was trimmed past our position) or a
step back (a failover lost entries) means that the counts are loaded again (``loading``), and the old ones serve
meanwhile. So does another server, since its stream may have gone another way. Whatever comes next, the change
before it must still be in the stream under its number: a promoted replica may have continued with other lessons
under the same numbers. Whoever teaches gets his own changes from the stream like all others.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from nbstream.bayes.counts import ChangePosition, Totals
from nbstream.errors import NbstreamError, StoreUnavailable
from nbstream.policy.prequential_scores import PrequentialScores
from nbstream.store.backoff import Backoff
from nbstream.store.cancellation import stop_if_cancelled
from nbstream.store.connection import ServerGuard
from nbstream.store.mirror.loading import READ_COUNT, LoadedCounts, RescanNeeded, load_counts
from nbstream.store.redis_errors import readable_replies, store_errors

if TYPE_CHECKING:
    import ctypes

    import numpy as np
    from numpy.typing import NDArray

    from nbstream.engine.table import Table
    from nbstream.store.model.model import Model

_log = logging.getLogger(__name__)

_BLOCK_SECONDS = 1.0
_MAX_SILENT_BLOCKS = 3  # without a reply for that long, Redis is regarded as unavailable
_APPLIED_SECONDS = 5.0
_LOG_EVERY = 30  # attempts, two seconds apart: about once a minute


class Mirror:
    """A model's counts in memory; ``run`` keeps them equal to Redis until it is cancelled.

    ``source`` is a model, or a layer of one, which has other keys in each epoch. Its Redis client belongs to the
    mirror alone and does not retry by itself: after a connection has broken the next one may lead to another
    server, so everything is compared anew. ``before_connect`` is awaited before each attempt to connect. With
    a native ``library`` the counts are in a table of it.
    """

    def __init__(
        self,
        source: Model,
        timeout_seconds: float,
        before_connect: Callable[[], Awaitable[object]] | None = None,
        library: ctypes.CDLL | None = None,
    ) -> None:
        self._source = source
        self._before_connect = before_connect
        self._block_seconds = min(_BLOCK_SECONDS, timeout_seconds / 2)  # the reply must come before the deadline
        self._library = library
        self._loaded: LoadedCounts | None = None
        self._followed = ""  # the key of the change stream
        self._last_reply_at = time.monotonic()
        self._connected = False
        self._progress = asyncio.Event()
        self.loaded = asyncio.Event()
        """Whether the counts have been loaded."""
        self.loads = 0
        """How often the counts were loaded: at the start, and whenever Redis was away or is another one."""

    # How far this mirror is

    @property
    def following(self) -> bool:
        """True while the change stream is read and Redis answers in time."""
        silence = time.monotonic() - self._last_reply_at
        return self._connected and silence < _MAX_SILENT_BLOCKS * self._block_seconds

    @property
    def lag_seconds(self) -> float:
        """Seconds since this mirror was last known to equal Redis; 0 while it follows."""
        return 0.0 if self.following else time.monotonic() - self._last_reply_at

    async def wait_for_more_tokens(self, tokens: int) -> None:
        """Return when this mirror holds more distinct tokens than ``tokens``, whatever their counts are."""
        await self._wait_until(lambda: self._distinct_tokens > tokens)

    async def wait_until_applied(self, change: bytes) -> None:
        """Return when this mirror has applied the change with the stream id ``change``.

        Raises ``StoreUnavailable`` when that takes longer than 5 seconds; the change is durable all the same.
        """
        wanted = ChangePosition.of(change)
        try:
            async with asyncio.timeout(_APPLIED_SECONDS):
                await self._wait_until(lambda: self._loaded is not None and self._loaded.position >= wanted)
        except TimeoutError as error:
            raise StoreUnavailable("the change is stored, but the counts in memory do not follow Redis") from error

    async def _wait_until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            await self._progress.wait()

    def _wake_waiters(self) -> None:
        self._progress.set()
        self._progress = asyncio.Event()

    # What it holds

    @property
    def totals(self) -> Totals | None:
        """The totals as this mirror knows them; None before the first load."""
        return None if self._loaded is None else self._loaded.counts.totals

    @property
    def vocabulary_size(self) -> int:
        """The number of distinct tokens with a count above zero; 0 before the first load."""
        totals = self.totals
        return 0 if totals is None else totals.vocabulary_size

    @property
    def _distinct_tokens(self) -> int:
        return -1 if self._loaded is None else self._loaded.counts.distinct_tokens

    def snapshot(self) -> tuple[list[bytes], NDArray[np.int64]]:
        """Return all names of tokens and sums, and their counts, shape (names, classes).

        Takes 30 ms for half a million tokens. Raises ``StoreUnavailable`` before the first load.
        """
        return self._loaded_counts().counts.snapshot()

    @property
    def native_table(self) -> Table | None:
        """The table of the native library that has the counts now; None where they are in a dictionary.

        Raises ``StoreUnavailable`` before the first load.
        """
        return self._loaded_counts().counts.native_table

    async def look_up(self, tokens: Sequence[bytes]) -> tuple[NDArray[np.int64], Totals]:
        """Return the counts of ``tokens``, shape (n, classes), and the totals; never waits.

        Raises ``StoreUnavailable`` before the first load.
        """
        return self._loaded_counts().counts.look_up_with_totals(tokens)

    async def sums(self, names: tuple[bytes, ...]) -> NDArray[np.int64]:
        """Return the counts of these sums, shape (n, classes); never waits.

        Returns the same array until a count changes. Raises ``StoreUnavailable`` before the first load.
        """
        return self._loaded_counts().counts.sums(names)

    @property
    def loaded_prequential_scores(self) -> PrequentialScores:
        """The prequential scores as this mirror knows them; an empty collection before the first load."""
        return PrequentialScores() if self._loaded is None else self._loaded.prequential_scores

    async def prequential_scores(self) -> PrequentialScores:
        """Return the prequential scores; never waits.

        The object goes on following the change stream. Raises ``StoreUnavailable`` before the first load.
        """
        return self._loaded_counts().prequential_scores

    def _loaded_counts(self) -> LoadedCounts:
        if self._loaded is None:
            raise StoreUnavailable("the counts are not loaded yet")
        return self._loaded

    # Following the stream

    async def run(self) -> None:
        """Load the counts and follow the changes until cancelled; connect again by itself when Redis is back."""
        backoff = Backoff(draw=random.random)
        while True:
            stop_if_cancelled()
            try:
                with readable_replies():
                    await self._load_and_follow(backoff)
            except (RescanNeeded, NbstreamError) as error:
                problem = f"history differs, rescanned: {error}" if isinstance(error, RescanNeeded) else str(error)
                self._note_disconnect(problem, loud=backoff.failures % _LOG_EVERY == 0)
                await asyncio.sleep(backoff.next_wait())
            except Exception as error:  # whoever runs this starts it again: nothing is followed until then
                self._note_disconnect(str(error), loud=False)
                raise

    def _note_disconnect(self, problem: str, *, loud: bool) -> None:
        self._connected = False
        _log.log(logging.ERROR if loud else logging.DEBUG, "mirror: %s", problem)

    async def _load_and_follow(self, backoff: Backoff) -> None:
        """Load and follow until this process has to load again."""
        if self._before_connect:
            await self._before_connect()
        model = await self._source.open()
        guard = ServerGuard(model.client)
        loaded = await load_counts(model, self._library)
        guard.check()
        backoff.reset()
        self._warn_of_loss(model, loaded.position)
        self._begin_with(loaded, model.keys.log_name)
        await self._follow(model, loaded, guard)

    def _warn_of_loss(self, model: Model, here: ChangePosition) -> None:
        """Log that Redis has fewer changes than were known here, or another one in the last place."""
        former = self._loaded.position if self._loaded and self._followed == model.keys.changes else here
        self._followed = model.keys.changes  # a layer has others in each epoch
        if here < former or (here.stream_id == former.stream_id and here != former):
            _log.warning(
                "%s: history differs, rescanned: known here was change %d, the last in Redis is %d",
                model.keys.log_name,
                former.sequence,
                here.sequence,
            )

    def _begin_with(self, loaded: LoadedCounts, log_name: str) -> None:
        self._loaded = loaded
        self._connected, self._last_reply_at = True, time.monotonic()
        self.loads += 1
        self.loaded.set()
        self._wake_waiters()
        _log.info(
            "%s loaded: %d tokens of %d messages",
            log_name,
            loaded.counts.totals.vocabulary_size,
            sum(loaded.counts.totals.messages),
        )

    async def _follow(self, model: Model, loaded: LoadedCounts, guard: ServerGuard) -> None:
        changes, client = model.keys.changes, model.client
        block = max(1, round(self._block_seconds * 1000))
        while True:
            stop_if_cancelled()
            with store_errors():
                streams: Any = await client.xread(
                    {changes: loaded.position.stream_id}, count=READ_COUNT, block=block
                )
            guard.check()
            self._last_reply_at = time.monotonic()
            entries = stream_entries(streams)
            for entry_id, fields in entries:
                loaded.apply(entry_id, fields)
            self._wake_waiters()
            if not entries:
                await self._check_end(model, loaded.position)

    async def _check_end(self, model: Model, here: ChangePosition) -> None:
        """Raise ``RescanNeeded`` if Redis has fewer changes than this mirror, or another one in the last place.

        To be called when a read of the stream gave nothing.
        """
        end = (await model.position()).change
        if end < here or (end.stream_id == here.stream_id and end != here):
            raise RescanNeeded(f"known here is change {here.sequence}, the last in Redis is {end.sequence}")


StreamEntries: TypeAlias = "Sequence[tuple[bytes, Mapping[bytes, bytes]]]"
"""Entries of a stream: the id of each, and its fields."""


def entries_by_stream(streams: Any) -> Sequence[tuple[bytes, StreamEntries]]:
    """Return the key of each stream in the reply to an XREAD or XREADGROUP, and its entries.

    RESP3 gives a mapping, RESP2 a list.
    """
    if not streams:
        return []
    if isinstance(streams, dict):
        return [(key, groups[0]) for key, groups in streams.items()]
    return [(key, entries) for key, entries in streams]


def stream_entries(streams: Any) -> StreamEntries:
    """Return the entries in the reply to an XREAD or XREADGROUP of one stream."""
    return next((entries for _, entries in entries_by_stream(streams)), ())
