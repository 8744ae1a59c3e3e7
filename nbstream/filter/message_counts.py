"""The counts that matter for a message or a group of them, what lessons make of them, and whether there is room.

Learning stops before counts become inexact. The check is made on the counts as they would be after the lesson.
These counts may be some lessons old, or others may change them at the same moment. That does no harm: very many
lessons fit between the limit and the largest integer that is exact.

Most tokens of a group of lessons came in one of those before it. So their counts are not read again, but known:
what was read plus what was learned. Those of the next group can be read while lessons are on their way: its new
names are none of theirs. Where a class has totals in Redis that it has after no step of our own, somebody else has
taught, and all are read again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from nbstream.bayes.columns import CLASSES, PLAIN
from nbstream.bayes.counts import MAX_COUNT, ClassCounts
from nbstream.bayes.multinomial import TokenCounts
from nbstream.bayes.novelty import CHECK_SUMS
from nbstream.engine.name_numbers import NameNumbers
from nbstream.errors import CountsFull
from nbstream.numpy_on_demand import np
from nbstream.tokens.tokens import TokenList, join_tokens

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nbstream.bayes.counts import Counts, Totals
    from nbstream.errors import StoreIncompatible, StoreUnavailable
    from nbstream.policy.thresholds import PrequentialScores
    from nbstream.store.model.history import LessonNote
    from nbstream.store.model.ledger import LedgerConflict, LedgerEntry
    from nbstream.store.model.scripts import LessonBatch
    from nbstream.tokens.tokens import Tokens


# Where a filter reads counts and stores lessons.


class CountSource(Protocol):
    """A source of counts: the memory of a daemon, Redis itself in a one-shot command."""

    @property
    def in_memory(self) -> Counts | None:
        """The counts as people taught them, where they are in the memory of this process.

        Raises ``StoreUnavailable`` where no counts are loaded.
        """

    async def look_up(self, tokens: Sequence[bytes]) -> tuple[NDArray[np.int64], Totals]:
        """Return the counts of ``tokens`` by label, shape (n, classes), and the totals, as people taught them."""

    async def look_up_columns(
        self, tokens: Sequence[bytes], *, automatic: bool = False
    ) -> tuple[NDArray[np.int64], Totals]:
        """Return the counts of ``tokens`` in each of the columns of the totals, shape (n, columns), and these.

        These are the columns that people taught, or those that were learned without them.
        """

    async def sums(self, names: tuple[bytes, ...]) -> NDArray[np.int64]:
        """Return the counts of these sums by label: the very same array until one of them changes."""

    async def prequential_scores(self) -> PrequentialScores:
        """Return the P(spam) that recent messages had before their first label."""

    async def wait_until_applied(self, change: bytes) -> None:
        """Return when ``look_up`` shows the change with this stream id. Raises ``StoreUnavailable``."""


class LessonStore(Protocol):
    """A store of lessons: a model in Redis, or a model in memory. ``Model`` documents what each method ensures."""

    async def entry(self, message_key: str) -> LedgerEntry | None:
        """Return the ledger entry of the message, or None."""

    async def entries(self, message_keys: Sequence[str]) -> Sequence[LedgerEntry | StoreIncompatible | None]:
        """Return the ledger entry of each message, None, or the error where the entry cannot be read."""

    async def commit_lesson(
        self, message_key: str, old: LedgerEntry | None, new: LedgerEntry | None, note: LessonNote
    ) -> bytes | LedgerConflict:
        """Take back ``old`` and add ``new`` in one step, and return the stream id of the change.

        Returns a ``LedgerConflict`` with the present entry, and changes nothing, where that is not ``old``.
        """

    async def commit_lessons(
        self, batch: LessonBatch
    ) -> Sequence[bytes | LedgerConflict | StoreUnavailable | StoreIncompatible]:
        """Commit the lessons of a batch; the error of one that failed stands in its place."""

    async def confirm(self) -> None:
        """Return when what was acknowledged is as safe as each commit makes it. Raises ``StoreUnavailable``."""

    async def last_change(self) -> bytes:
        """Return the stream id of the last change; it is empty before the first change."""


def learned_by_class(totals: Totals, kinds: Sequence[str]) -> dict[str, int]:
    """Return how many messages each class has learned: ham of no other kind, the other ``kinds``, and spam."""
    learned = dict(zip(totals.columns, totals.messages, strict=True))
    return {name: learned.get(name, 0) for name in (PLAIN, *[kind for kind in kinds if kind != PLAIN], "spam")}


MAX_KNOWN_NAMES = 1 << 18  # some 40 MB; when there are more, all are forgotten
_NUMBERED_AT_ONCE = 32  # messages: half a millisecond
_TOTALS_KNOWN = 1200  # of two classes, and of the steps of two groups, where each lesson is one
_PLACES_OF_SUMS = {name: place for place, name in enumerate(CHECK_SUMS)}
_IN_ANY_CLASS = f"u{len(CLASSES)}"
"""The type of the booleans of all classes as one number: numpy is slow over short rows, and slower by columns."""


class MessageCounts(NamedTuple):
    """The counts that matter for a message, at one moment, as people taught them.

    ``names`` begin with its tokens. ``rows`` has the counts of these names, shape (names, classes), and ``sums``
    those of ``CHECK_SUMS``, shape (sums, classes). Neither array is changed later.
    ``prequential_scores`` is the live object: it changes with later lessons. ``autolearned`` is None where nothing
    is learned without people, or while that cannot be read. ``parents`` are the counts of the levels above an own
    model, the common model first; empty for the common model itself, which alone has an autolearned part.
    """

    names: Sequence[bytes]
    rows: NDArray[np.int64]
    sums: NDArray[np.int64]
    totals: Totals
    prequential_scores: PrequentialScores
    autolearned: TokenCounts | None = None
    parents: tuple[MessageCounts, ...] = ()

    def with_counts(self, rows: NDArray[np.int64], sums: NDArray[np.int64], totals: Totals) -> MessageCounts:
        """Return the same with other counts, as ``replace`` does in twice the time."""
        rest = self.prequential_scores, self.autolearned, self.parents
        return MessageCounts(self.names, rows, sums, totals, *rest)

    @property
    def common(self) -> MessageCounts:
        """The counts of the common model."""
        return self.parents[0] if self.parents else self

    @property
    def own(self) -> tuple[MessageCounts, ...]:
        """The counts of the own models, the highest level first; empty for the common model."""
        return (*self.parents[1:], self) if self.parents else ()


def count_names(tokens: Tokens, old_entry: LedgerEntry | None) -> Sequence[bytes]:
    """Return the tokens whose counts matter for a message: its own, then those that only ``old_entry`` has."""
    return tuple(dict.fromkeys((*tokens.all, *old_entry.tokens))) if old_entry else tokens.all


def counts_after_lesson(
    counts: MessageCounts, old_entry: LedgerEntry | None, new_entry: LedgerEntry | None
) -> MessageCounts:
    """Return the counts once ``old_entry`` is taken back and ``new_entry`` is added, if nobody else teaches.

    ``old_entry`` may be one that was learned without people, ``new_entry`` is one of theirs.
    """
    if old_entry and old_entry.is_automatic:
        counts, old_entry = _without_automatic(counts, old_entry), None
    if not old_entry and not new_entry:
        return counts
    only = new_entry if not old_entry else old_entry if not new_entry else None
    if only and only.tokens == counts.names:
        return _counts_after_one_entry(counts, only, 1 if new_entry else -1)
    changed = ClassCounts()
    changed.set_counts(counts.names, counts.rows)
    changed.set_counts(CHECK_SUMS, counts.sums)
    changed.set_totals(counts.totals)
    if old_entry:
        changed.subtract(old_entry.tokens, old_entry.label, old_entry.weight, old_entry.sums)
    if new_entry:
        changed.add(new_entry.tokens, new_entry.label, new_entry.weight, new_entry.sums)
    rows, sums = changed.look_up(counts.names), changed.look_up(CHECK_SUMS)
    return counts._replace(rows=rows, sums=sums, totals=changed.totals)


def _without_automatic(counts: MessageCounts, entry: LedgerEntry) -> MessageCounts:
    """Return the counts once ``entry``, which was learned without people, is taken back."""
    automatic = counts.autolearned
    if automatic is None or entry.column not in automatic.totals.columns:
        return counts
    changed = ClassCounts(automatic.totals.columns)
    changed.set_counts(counts.names, automatic.rows)
    changed.set_totals(automatic.totals)
    changed.subtract(entry.tokens, entry.column, entry.weight)
    return counts._replace(autolearned=TokenCounts(changed.look_up(counts.names), changed.totals))


def _counts_after_one_entry(counts: MessageCounts, entry: LedgerEntry, sign: int) -> MessageCounts:
    """Return the counts once ``entry``, whose tokens are those of ``counts``, is added (1) or taken back (-1).

    The result is that of ``ClassCounts``, but computed by arrays: most lessons are of this kind.
    """
    column, rows, sums = CLASSES.index(entry.label), counts.rows.copy(), counts.sums.copy()
    vocabulary_before = _vocabulary_size(rows)
    rows[:, column] += sign * entry.weight
    new_tokens = _vocabulary_size(rows) - vocabulary_before
    for name, amount in entry.sums:
        if (place := _PLACES_OF_SUMS.get(name)) is not None:
            sums[place, column] += sign * amount
    totals = counts.totals.with_lesson(column, sign * entry.weight * len(rows), new_tokens, sign)
    return counts.with_counts(rows, sums, totals)


def _vocabulary_size(rows: NDArray[np.int64]) -> int:
    """Return how many of the tokens with these counts some class has."""
    return int(np.count_nonzero((rows > 0).view(_IN_ANY_CLASS)))


def check_room(counts: MessageCounts) -> None:
    """Raise ``CountsFull`` where ``counts``, those after a planned lesson, are too large."""
    largest = max(
        *counts.totals.token_weights,
        int(abs(counts.rows).max(initial=0)),
        int(abs(counts.sums).max(initial=0)),
    )
    if largest > MAX_COUNT:
        raise CountsFull(
            "the counts have reached their limit: training is disabled, scoring continues; set model.name to a "
            "new name and train that model"
        )


class KnownRows(NamedTuple):
    """The names of the counts of one message, and the numbers of their rows."""

    names: Sequence[bytes]
    numbers: NDArray[np.int64]


class KnownCounts:
    """The counts of a group, and those that were read for the groups before it, plus what they have taught.

    ``read_counts`` reads the counts of some names on all levels, and ``make_numbers`` makes what numbers names.
    """

    def __init__(
        self,
        read_counts: Callable[[Sequence[bytes]], Awaitable[MessageCounts]],
        make_numbers: Callable[[], NameNumbers] = NameNumbers,
    ) -> None:
        self._make_numbers = make_numbers
        self._read_counts = read_counts
        self._totals_of_steps = deque[tuple[object, ...]](maxlen=_TOTALS_KNOWN)
        self._forget()

    def __len__(self) -> int:
        return len(self._row_numbers)

    def _forget(self) -> None:
        self._row_numbers = self._make_numbers()
        self._counts: MessageCounts | None = None

    async def read(self, names: Sequence[Sequence[bytes]]) -> Sequence[KnownRows]:
        """Read what is not known of the counts of a group; ``names`` are the names of counts of each message.

        All lessons so far are in Redis.
        """
        self._totals_of_steps.clear()
        if len(self) > MAX_KNOWN_NAMES:
            self._forget()
        self.end_step()
        rows = await self._read_unknown(names)
        if rows is None:
            self._forget()
            rows = await self._read_unknown(names)
            assert rows is not None
        self.end_step()
        return rows

    async def read_ahead(self, names: Sequence[Sequence[bytes]]) -> Sequence[KnownRows] | None:
        """Read the same while lessons are on their way: what they change is known, and is not read.

        Returns None where it has to wait for them: somebody else may have taught, or too many names are known.
        """
        return await self._read_unknown(names) if len(self) <= MAX_KNOWN_NAMES else None

    async def _read_unknown(self, names: Sequence[Sequence[bytes]]) -> Sequence[KnownRows] | None:
        """Read the counts of new names; return None where totals are those of no step of the lessons."""
        number, known = self._row_numbers.number, len(self._counts.rows) if self._counts else 0
        rows = list[KnownRows]()
        for of_one in names:
            rows.append(KnownRows(of_one, number(join_tokens(of_one), len(of_one))))
            if len(rows) % _NUMBERED_AT_ONCE == 0:
                await asyncio.sleep(0)
        unknown = TokenList.from_joined(self._row_numbers.joined(known), len(self._row_numbers) - known)
        counts = await self._read_counts(unknown)
        if self._counts:
            if not all(map(self._totals_of_steps.__contains__, _class_totals(counts))):
                return None
            counts = _join_rows(self._counts, counts)
        self._counts = counts
        return rows

    def message_counts(self, rows: KnownRows) -> MessageCounts:
        """Return the counts of a message, with the lessons so far."""
        assert self._counts
        return _rows_of(self._counts, *rows)

    def apply_lesson(self, rows: KnownRows, counts_after: MessageCounts) -> None:
        """Put the counts after the lesson of a message in the place of those before it."""
        assert self._counts
        _as_items(self._counts.rows)[rows.numbers] = _as_items(counts_after.rows)
        automatic, after = self._counts.autolearned, counts_after.autolearned
        if automatic and after and automatic.totals != after.totals:
            _as_items(automatic.rows)[rows.numbers] = _as_items(after.rows)
            self._counts = self._counts._replace(autolearned=automatic._replace(totals=after.totals))
        self._counts = self._counts.with_counts(self._counts.rows, counts_after.sums, counts_after.totals)

    def end_step(self) -> None:
        """Note the totals that each class may have in Redis: those after the lessons so far, where a step ends."""
        if self._counts:
            self._totals_of_steps.extendleft(_class_totals(self._counts))


def _class_totals(counts: MessageCounts, level: int = 0) -> Iterator[tuple[object, ...]]:
    """Yield the totals of each class on each level: whoever teaches changes some of them, and in one step."""
    for totals in (counts.totals, *([counts.autolearned.totals] if counts.autolearned else ())):
        for column in zip(totals.columns, totals.messages, totals.token_weights, strict=True):
            yield level, *column
    for number, parent in enumerate(counts.parents, 1):
        yield from _class_totals(parent, number)


def _as_items(rows: NDArray[np.int64]) -> NDArray[np.void]:
    """Return a view with an item for each row, which takes a tenth of the time to write."""
    return rows.view(f"V{rows.shape[1] * rows.itemsize}").reshape(-1)


def _join_rows(known: MessageCounts, counts: MessageCounts) -> MessageCounts:
    """Return ``known``, of the moment of ``counts``, with the rows of these behind its own, on all levels."""
    rows, automatic = np.concatenate((known.rows, counts.rows)), counts.autolearned
    if automatic and known.autolearned:
        automatic = automatic._replace(rows=np.concatenate((known.autolearned.rows, automatic.rows)))
    parents = tuple(map(_join_rows, known.parents, counts.parents))
    prequential_scores = counts.prequential_scores  # another object where the counts were loaded again
    return known._replace(rows=rows, prequential_scores=prequential_scores, autolearned=automatic, parents=parents)


def _rows_of(counts: MessageCounts, names: Sequence[bytes], row_numbers: NDArray[np.int64]) -> MessageCounts:
    """Return the counts of ``names``, which are in the rows of these numbers, on all levels."""
    automatic = counts.autolearned
    return MessageCounts(  # ``replace`` takes twice the time
        names,
        counts.rows.take(row_numbers, axis=0),
        counts.sums,
        counts.totals,
        counts.prequential_scores,
        TokenCounts(automatic.rows.take(row_numbers, axis=0), automatic.totals) if automatic else None,
        tuple([_rows_of(parent, names, row_numbers) for parent in counts.parents]),
    )
