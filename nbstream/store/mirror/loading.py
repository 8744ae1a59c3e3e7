"""Loading: how the counts of a model come into the memory of this process.

Rules: the position in the change stream is noted before the counts are scanned, and replay begins there. A change
carries resulting counts, so it does no harm when the scan has already seen it. Changes are numbered one after the
other: a gap or a step back means that the counts have to be loaded again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nbstream.bayes.counts import CLASSES, AutomaticCounts, ChangePosition, ClassCounts
from nbstream.bayes.kinds import automatic_columns, is_automatic, label_of
from nbstream.bayes.table_counts import make_counts
from nbstream.store.mirror.follower import READ_COUNT, RescanNeeded
from nbstream.store.model.scan import scan_counts, scan_prequential_scores
from nbstream.store.model.scripts import changed_counts, is_of_model, lesson_count
from nbstream.store.model.totals import StoredTotals
from nbstream.store.redis_errors import store_errors

if TYPE_CHECKING:
    import ctypes
    from collections.abc import Mapping, Sequence

    from nbstream.bayes.counts import Counts
    from nbstream.policy.thresholds import PrequentialScores
    from nbstream.store.model.model import Model


@dataclass(slots=True)
class LoadedCounts:
    """The counts of a model in memory, complete up to the change at ``position``.

    ``counts`` are what people taught, ``automatic`` what was learned without them, in columns of ``generation``.
    They are apart, so that a token of one takes no room in the other. ``name_in_changes`` tells the changes of the
    model from those of others in the same stream.
    """

    counts: Counts
    automatic: Counts
    generation: int
    prequential_scores: PrequentialScores
    position: ChangePosition
    name_in_changes: str = ""

    def apply(self, entry_id: bytes, fields: Mapping[bytes, bytes]) -> None:
        """Take over the resulting counts of the next change; raise ``RescanNeeded`` for any other one."""
        try:
            self._apply_fields(entry_id, fields)
        except (KeyError, ValueError) as error:
            raise RescanNeeded(f"change {entry_id.decode()} cannot be read: {error!r}") from error

    def _apply_fields(self, entry_id: bytes, fields: Mapping[bytes, bytes]) -> None:
        sequence = int(fields[b"sequence"])
        if sequence != self.position.sequence + lesson_count(fields):
            raise RescanNeeded(f"change {sequence} came after {self.position.sequence}")
        if fields[b"predecessor"] != self.position.stream_id:
            raise RescanNeeded(f"change {self.position.sequence} that is known here is not in Redis")
        if not is_of_model(fields, self.name_in_changes):
            self.position = ChangePosition.of(entry_id, sequence)
            return
        tokens, columns = changed_counts(fields)
        totals = StoredTotals.of_pairs(fields[b"totals"].split())
        self.prequential_scores.apply_change(fields)
        self.position = ChangePosition.of(entry_id, sequence)
        for column, values in columns:
            counts = self.automatic if is_automatic(column) else self.counts
            counts.set_column(tokens, CLASSES.index(label_of(column)), values)
        self.set_totals(totals)

    def set_totals(self, totals: StoredTotals) -> None:
        """Set the totals as a whole."""
        self.counts.set_totals(totals.people)
        self.automatic.set_totals(totals.automatic)

    def columns(self, *, automatic: bool) -> Counts:
        """Return what was learned without people, or what they taught."""
        return self.automatic if automatic else self.counts

    def look_up_automatic(self, tokens: Sequence[bytes]) -> AutomaticCounts:
        """Return the counts of ``tokens`` as they were learned without people."""
        return AutomaticCounts(*self.automatic.look_up_with_totals(tokens), self.generation)


async def load_counts(model: Model, library: ctypes.CDLL | None, *, has_automatic: bool = True) -> LoadedCounts:
    """Scan all counts, then replay what was learned meanwhile, to the end of the stream.

    They are in tables of the native ``library`` where there is one. ``has_automatic`` says whether something may
    be learned without people. Raises ``StoreUnavailable`` and ``RescanNeeded``.
    """
    start = await model.position()
    people, automatic, generation = start.totals
    counts = make_counts(library, people.vocabulary_size)
    automatic_counts = make_counts(library, automatic.vocabulary_size) if has_automatic else ClassCounts()
    with store_errors():
        await scan_counts(model.client, model.keys, CLASSES, counts)
        if has_automatic:
            await scan_counts(model.client, model.keys, automatic_columns(generation), automatic_counts)
        prequential_scores = await scan_prequential_scores(model.client, model.keys)
    loaded = LoadedCounts(
        counts, automatic_counts, generation, prequential_scores, start.change, model.keys.name_in_changes
    )
    loaded.set_totals(start.totals)
    await replay(model, loaded)
    return loaded


async def replay(model: Model, loaded: LoadedCounts) -> None:
    """Apply what is in the stream behind ``loaded``. Raises ``StoreUnavailable`` and ``RescanNeeded``."""
    entries: Any = None
    while entries is None or len(entries) == READ_COUNT:
        begin = b"(" + loaded.position.stream_id
        with store_errors():
            entries = await model.client.xrange(model.keys.changes, min=begin, count=READ_COUNT)
        for entry_id, fields in entries:
            loaded.apply(entry_id, fields)
