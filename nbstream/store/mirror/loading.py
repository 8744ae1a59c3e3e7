"""Loading: how the counts of a model come into the memory of this process.

Rules: the position in the change stream is noted before the counts are scanned, and replay begins there. A change
carries resulting counts, so it does no harm when the scan has already seen it. Changes are numbered one after the
other: a gap or a step back means that the counts have to be loaded again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nbstream.bayes.columns import is_automatic
from nbstream.bayes.counts import ChangePosition
from nbstream.bayes.table_counts import make_counts
from nbstream.store.mirror.follower import READ_COUNT, RescanNeeded
from nbstream.store.model.scan import scan_counts, scan_prequential_scores
from nbstream.store.model.scripts import changed_counts, is_of_model, lesson_count, read_totals_in_turn
from nbstream.store.redis_errors import store_errors

if TYPE_CHECKING:
    import ctypes
    from collections.abc import Mapping

    from nbstream.bayes.counts import Counts
    from nbstream.policy.thresholds import PrequentialScores
    from nbstream.store.model.model import Model


@dataclass(slots=True)
class LoadedCounts:
    """The counts of a model in memory, complete up to the change at ``position``.

    ``counts`` are what people taught, ``automatic`` what was learned without them. They are apart, so that a
    token of one takes no room in the other. ``name_in_changes`` tells the changes of the model from those of
    others in the same stream.
    """

    counts: Counts
    automatic: Counts
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
        totals = read_totals_in_turn(fields[b"totals"].split())
        self.prequential_scores.apply_change(fields)
        self.position = ChangePosition.of(entry_id, sequence)
        for column, values in columns:
            self.group(automatic=is_automatic(column)).set_column(tokens, column, values)
        for counts, of_group in zip((self.counts, self.automatic), totals, strict=True):
            counts.set_totals(of_group)

    def group(self, *, automatic: bool) -> Counts:
        """Return what was learned without people, or what they taught."""
        return self.automatic if automatic else self.counts


async def load_counts(model: Model, library: ctypes.CDLL | None, *, has_automatic: bool = True) -> LoadedCounts:
    """Scan all counts, then replay what was learned meanwhile, to the end of the stream.

    They are in tables of the native ``library`` where there is one. ``has_automatic`` says whether something may
    be learned without people. Raises ``StoreUnavailable`` and ``RescanNeeded``.
    """
    start = await model.position()
    counts = make_counts(library, start.people.vocabulary_size, start.people.columns)
    automatic = make_counts(
        library if has_automatic else None, start.automatic.vocabulary_size, start.automatic.columns
    )
    with store_errors():
        await scan_counts(model.client, model.keys, counts)
        if has_automatic:
            await scan_counts(model.client, model.keys, automatic)
        prequential_scores = await scan_prequential_scores(model.client, model.keys)
    counts.set_totals(start.people)
    automatic.set_totals(start.automatic)
    loaded = LoadedCounts(counts, automatic, prequential_scores, start.change, model.keys.name_in_changes)
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
