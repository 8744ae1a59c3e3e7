"""Loading: how the counts of a model come into the memory of this process.

Rules: the position in the change stream is noted before the counts are scanned, and replay begins there. A change
carries resulting counts, so it does no harm when the scan has already seen it. Changes are numbered one after the
other: a gap or a step back means that the counts have to be loaded again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nbstream.bayes.counts import ChangePosition, Totals
from nbstream.bayes.table_counts import make_counts
from nbstream.store.mirror.follower import READ_COUNT, RescanNeeded
from nbstream.store.model.scan import scan_counts, scan_prequential_scores
from nbstream.store.model.scripts import changed_counts, is_of_model, lesson_count
from nbstream.store.redis_errors import store_errors

if TYPE_CHECKING:
    import ctypes
    from collections.abc import Mapping

    from nbstream.bayes.counts import Counts
    from nbstream.policy.prequential_scores import PrequentialScores
    from nbstream.store.model.model import Model


@dataclass(slots=True)
class LoadedCounts:
    """The counts of a model in memory, complete up to the change at ``position``.

    ``name_in_changes`` tells the changes of the model from those of others in the same stream.
    """

    counts: Counts
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
        totals = _parse_totals(fields[b"totals"])
        self.prequential_scores.apply_change(fields)
        self.position = ChangePosition.of(entry_id, sequence)
        for column, values in columns:
            self.counts.set_column(tokens, column, values)
        self.counts.set_totals(totals)


def _parse_totals(text: bytes) -> Totals:
    """The totals of a change: messages and weights per class in turn, then the vocabulary."""
    *pairs, vocabulary = (int(number) for number in text.split())
    return Totals(tuple(pairs[0::2]), tuple(pairs[1::2]), vocabulary)


async def load_counts(model: Model, library: ctypes.CDLL | None) -> LoadedCounts:
    """Scan all counts, then replay what was learned meanwhile, to the end of the stream.

    They are in a table of the native ``library`` where there is one. Raises ``StoreUnavailable`` and
    ``RescanNeeded``.
    """
    start = await model.position()
    counts = make_counts(library, start.totals.vocabulary_size)
    with store_errors():
        await scan_counts(model.client, model.keys, counts)
        counts.set_totals(start.totals)
        prequential_scores = await scan_prequential_scores(model.client, model.keys)
    loaded = LoadedCounts(counts, prequential_scores, start.change, model.keys.name_in_changes)
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
