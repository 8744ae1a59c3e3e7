"""Lessons for tests of the store: ledger entries, hypothesis strategies of them, and a way to commit one."""

from __future__ import annotations

import secrets

from hypothesis import strategies as st

from nbstream.bayes.columns import CLASSES
from nbstream.bayes.counts import Sums
from nbstream.store.model.history import Assessment, LessonNote
from nbstream.store.model.ledger import LedgerEntry
from nbstream.store.model.model import Model

NOTE = LessonNote("test", "nobody", Assessment(0.5, "unsure"), Assessment(0.5, "unsure"))
"""A note for tests that do not care who taught."""

Lesson = tuple[str, list[bytes], int, Sums]
Step = tuple[str, Lesson | None]

# The first token is of a header field that has the name of a sum.
TOKENS = [b"=x:free", *(f"token:{n}".encode() for n in range(7))]
SUM_NAMES = [b"=x", b"=messages", b"=type=text/plain", b"=size.xx"]
MESSAGES = ["m1", "m2", "m3"]


def entry(label: str, tokens: list[bytes], weight: int = 1000, sums: Sums = ()) -> LedgerEntry:
    """A ledger entry with a version of its own."""
    return LedgerEntry(
        secrets.token_hex(4), label, weight, tuple(tokens), 1.5, "test", "nobody", 0.25, tuple(sums)
    )


async def change(model: Model, message: str, new: LedgerEntry | None) -> bytes | None:
    """Learn the message as ``new``, or unlearn it; return the change, None where somebody else was faster."""
    result = await model.commit_lesson(message, await model.entry(message), new, NOTE)
    return result if isinstance(result, bytes) else None


sums = st.lists(
    st.tuples(st.sampled_from(SUM_NAMES), st.sampled_from([0, 1, 1000, 10**9])), unique_by=lambda pair: pair[0]
)
lessons = st.tuples(
    st.sampled_from([*CLASSES, "newsletter", "notification"]),
    st.lists(st.sampled_from(TOKENS), unique=True),
    st.sampled_from([0, 1, 1000]),
    sums,
)
steps = st.lists(st.tuples(st.sampled_from(MESSAGES), st.none() | lessons), max_size=12)
"""Messages that are learned, relearned (as any class) or unlearned."""
