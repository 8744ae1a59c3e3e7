"""The inbox regime over another filter: the loop that ``nbstream evaluate --regime inbox`` makes over ours.

Rules: a message has the same draw as in ``evaluate`` with the same seed. No label is due within ``delay``
messages, so that many messages may be checked in one go between two labels.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Protocol, TypeAlias

from nbstream.evaluation.regimes import InboxHabits
from nbstream.evaluation.run import draw_habits

Labelled: TypeAlias = tuple[str, Path]
"""The true label of a message, and its file."""


class Peer(Protocol):
    """Another filter, with a model of its own that is empty at first."""

    def learn_all(self, messages: Sequence[Labelled]) -> None:
        """Learn old mail."""

    def learn(self, label: str, path: Path) -> None:
        """Learn what a person says of one message that was checked."""

    def check(self, paths: Sequence[Path]) -> list[bool]:
        """Return of each message whether it goes to Junk; in their order, each learned automatically or not."""


@dataclass(frozen=True, slots=True)
class InboxCounts:
    """What became of the messages after the taught ones."""

    ham: int
    spam: int
    ham_in_junk: int
    spam_in_inbox: int
    corrections: int


def run_inbox(
    peer: Peer, messages: Sequence[Labelled], taught: int, seed: int, habits: InboxHabits | None = None
) -> InboxCounts:
    """Teach the first ``taught`` messages, and check the others, some of which a person moves."""
    habits = habits or InboxHabits()
    peer.learn_all(messages[:taught])
    draws = list(islice(draw_habits(seed), len(messages)))
    moved: deque[int] = deque()  # the positions of the messages whose labels will be due, the earliest first
    in_junk: list[bool] = []
    corrections, position = 0, taught
    while position < len(messages):
        last = (moved[0] if moved else position) + habits.delay
        checked = range(position, min(last + 1, len(messages)))
        for number, junk in zip(checked, peer.check([messages[n][1] for n in checked]), strict=True):
            in_junk.append(junk)
            label = messages[number][0]
            if junk != (label == "spam") and habits.moves(label, draws[number]):
                moved.append(number)
        position = checked.stop
        while moved and moved[0] + habits.delay < position:
            peer.learn(*messages[moved.popleft()])
            corrections += 1
    return _counts([label for label, _ in messages[taught:]], in_junk, corrections)


def _counts(labels: Sequence[str], in_junk: Sequence[bool], corrections: int) -> InboxCounts:
    pairs = list(zip(labels, in_junk, strict=True))
    return InboxCounts(
        ham=labels.count("ham"),
        spam=labels.count("spam"),
        ham_in_junk=pairs.count(("ham", True)),
        spam_in_inbox=pairs.count(("spam", False)),
        corrections=corrections,
    )
