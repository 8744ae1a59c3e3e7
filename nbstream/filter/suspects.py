"""Suspects: learned messages whose label the model contradicts without their own lesson. The label may be wrong.

Rules: the counts without a lesson are exact, since a ledger entry has what its lesson added; nothing is written.
Where a model is learning, nothing is a suspect. Messages with the same wrong label support each other; see
``evaluation.suspects`` for a way out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from nbstream.store.model.ledger import LedgerEntry

if TYPE_CHECKING:
    from nbstream.filter.message_counts import LessonStore
    from nbstream.filter.scorer import Scorer

MIN_DOUBT = 0.95
"""The least P(the other class) of a suspect; see docs/experiments.md, "Suspects"."""

_BATCH = 64  # ledger entries that are read at once


class Suspect(NamedTuple):
    """A message with its label, and P(spam) without its own lesson."""

    message_key: str
    label: str
    probability: float

    @property
    def doubt(self) -> float:
        """P(the other class)."""
        return self.probability if self.label == "ham" else 1.0 - self.probability


async def find_suspects(model: LessonStore, scorer: Scorer, message_keys: Iterable[str]) -> list[Suspect]:
    """Return the suspects among learned messages, in the order of their keys. Raises ``StoreUnavailable``.

    The counts of ``scorer`` include what ``model`` has learned.
    """
    suspects, keys = [], iter(message_keys)
    while some := list(islice(keys, _BATCH)):
        for key, entry in zip(some, await model.entries(some), strict=True):
            # It may be taken back meanwhile, learned without people, or written by another program.
            if not isinstance(entry, LedgerEntry) or entry.is_automatic:
                continue
            check = await scorer.check_without_lesson(key, entry)
            suspect = Suspect(key, entry.label, check.probability)
            if suspect.doubt >= MIN_DOUBT and not check.state.is_learning:
                suspects.append(suspect)
            await asyncio.sleep(0)
    return suspects


def describe_suspects(suspects: Collection[Suspect], given: str) -> str:
    """Return in words which labels look wrong; ``given`` is how they were: ``labelled`` or ``taught as``."""
    parts: list[str] = []
    for label, other in (("spam", "ham"), ("ham", "spam")):
        count = sum(suspect.label == label for suspect in suspects)
        if count:
            messages = "" if parts else " message" if count == 1 else " messages"
            subject, verb = (f"this{messages}", "looks") if count == 1 else (f"these {count:,}{messages}", "look")
            parts.append(f"{subject} {given} {label} {verb} like {other}")
    described = ", ".join(parts) or f"no message {given} ham looks like spam, and none {given} spam like ham"
    return described[0].upper() + described[1:]
