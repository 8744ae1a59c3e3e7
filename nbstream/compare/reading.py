"""The messages that two filters have judged, from the rows of checked messages and the ledger.

Rules: nothing is written. At most ``MAX_ROWS`` messages are looked at, the newest. What cannot be compared is
counted by its reason.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from nbstream.compare.comparison import Comparison, JudgedMessage, LeftOut, filter_verdict
from nbstream.compare.fields import FilterVerdict, OtherVerdict
from nbstream.errors import StoreIncompatible
from nbstream.policy.first_scores import FirstScore
from nbstream.store.cancellation import stop_if_cancelled
from nbstream.store.model.sample import read_sample
from nbstream.store.recent.row_search import RowFilter

if TYPE_CHECKING:
    from nbstream.store.model.ledger import LedgerEntry
    from nbstream.store.model.model import Model
    from nbstream.store.recent.message_rows import MessageRow, RowPosition
    from nbstream.store.recent.row_search import RowSearch

MAX_ROWS = 200_000
_PAGE = 500


async def read_comparison(  # noqa: PLR0913 - each is a fact that the reader cannot know
    search: RowSearch,
    model: Model,
    other: str,
    *,
    since: float | None = None,
    verdicts_in_mail: Mapping[str, OtherVerdict],
    learned_at: float,
    we_act: bool,
) -> Comparison:
    """Return the comparison of the messages that were checked at or after ``since``, None for all.

    ``verdicts_in_mail`` are verdicts of the other filter by id, read from delivered mail; they replace remembered
    ones. Until ``learned_at`` the model had learned too little for verdicts. Raises ``StoreUnavailable``.
    """
    sample = await read_sample(model.client, model.keys)
    messages: list[JudgedMessage] = []
    left_out: Counter[str] = Counter()
    position: RowPosition | None = None
    looked_at = 0
    while looked_at < MAX_ROWS:
        stop_if_cancelled()
        page = await search.search(RowFilter(since=since), position, count=_PAGE)
        entries = await model.entries([row.id for row in page.rows])
        for row, entry in zip(page.rows, entries, strict=True):
            verdict = verdicts_in_mail.get(row.id) or _remembered_verdict(row)
            reason = _reason_to_leave_out(row, verdict, entry, learned_at)
            if reason or not verdict or isinstance(entry, StoreIncompatible):
                left_out[reason] += 1
                continue
            messages.append(
                JudgedMessage(
                    row.id,
                    row.checked_at,
                    filter_verdict(row.verdict),
                    row.probability,
                    verdict,
                    entry.label if entry else None,
                    sample.draws(row.id, row.checked_at),
                    row.envelope.subject if row.envelope else None,
                )
            )
        looked_at += len(page.rows)
        position = page.next_position
        if position is None:
            break
    return Comparison(other, messages[::-1], LeftOut(**left_out), we_act, is_cut=position is not None)


def _remembered_verdict(row: MessageRow) -> OtherVerdict | None:
    return OtherVerdict.unpack(row.envelope.other_verdict) if row.envelope else None


def _reason_to_leave_out(
    row: MessageRow,
    verdict: OtherVerdict | None,
    entry: LedgerEntry | StoreIncompatible | None,
    learned_at: float,
) -> str:
    """Return the name of the number in ``LeftOut`` that the message belongs to, empty where it is compared."""
    if verdict is None:
        return "without_verdict"
    if verdict.verdict is FilterVerdict.UNCLEAR:
        return "unclear"
    if row.checked_at <= learned_at:
        return "learning"
    return "checked_after_label" if row.checked_at >= _first_label_at(entry) else ""


def _first_label_at(entry: LedgerEntry | StoreIncompatible | None) -> float:
    """Return when a message got its first label: never, or -inf where that cannot be read."""
    if entry is None:
        return math.inf
    if isinstance(entry, StoreIncompatible):
        return -math.inf
    first = FirstScore.unpack(entry.first_score).at if entry.first_score else math.inf
    return min(first, entry.learned_at)
