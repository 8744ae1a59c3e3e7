"""Messages of a labelled stream whose label may be wrong, after a run that has learned all labels.

Rules: a round looks at each message without its own lesson, and then takes back the lessons of all suspects.
Messages with the same wrong label support each other, so the next round finds more of them. Nothing is read again:
the ledger has the tokens.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

from nbstream.filter.suspects import Suspect, find_suspects

if TYPE_CHECKING:
    from nbstream.evaluation.run import EvaluationRow
    from nbstream.filter import Filter

_MAX_ROUNDS = 5
_SOURCE = "evaluate"


@dataclass(frozen=True, slots=True)
class SuspectRow:
    """A suspect, and its row of the run; ``number`` is that of its message in the stream, counted from 1."""

    number: int
    row: EvaluationRow
    suspect: Suspect


async def list_suspects(spam_filter: Filter, rows: Sequence[EvaluationRow]) -> list[SuspectRow]:
    """Return the suspects among the messages of a run, the most doubtful first.

    Of copies of one message the last one is listed. The lessons of suspects are taken back.
    """
    parts = spam_filter.parts
    numbers = {row.message_key: number for number, row in enumerate(rows, start=1)}
    suspects: dict[str, Suspect] = {}
    for _ in range(_MAX_ROUNDS):
        found = await find_suspects(parts.model, parts.make_scorer(spam_filter.policy), numbers)
        if not found:
            break
        for suspect in found:
            suspects[suspect.message_key] = suspect
            checked = await spam_filter.recall(suspect.message_key)
            assert checked is not None  # it is learned
            await spam_filter.unlearn(checked, _SOURCE)
    listed = [SuspectRow(numbers[key], rows[numbers[key] - 1], suspect) for key, suspect in suspects.items()]
    return sorted(listed, key=lambda each: (-each.suspect.doubt, each.number))


def write_suspects(file: TextIO, suspects: Iterable[SuspectRow]) -> None:
    """Write suspects as tab-separated values under a line of names.

    ``probability`` is P(spam) in the run, before the label was learned, and ``probability_without`` that without
    the lesson. What cannot be printed of a path is escaped as in Python, and so is a backslash.
    """
    file.write("number\tpath\tlabel\tprobability\tprobability_without\n")
    for each in suspects:
        row, suspect = each.row, each.suspect
        numbers = f"{row.probability!r}\t{suspect.probability!r}"
        file.write(f"{each.number}\t{_escape(row.name)}\t{suspect.label}\t{numbers}\n")


def _escape(name: str) -> str:
    return "".join(c if c.isprintable() and c != "\\" else c.encode("unicode_escape").decode() for c in name)
