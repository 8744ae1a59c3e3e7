"""Judged messages for tests."""

from __future__ import annotations

from nbstream.compare.comparison import Comparison, JudgedMessage, LeftOut
from nbstream.compare.fields import FilterVerdict, OtherVerdict

DAY = 86_400.0
START = 1_795_000_000.0


def judged(
    number: int,
    ours: FilterVerdict,
    theirs: FilterVerdict,
    label: str | None = None,
    *,
    drawn: bool = False,
    subject: str = "hello",
) -> JudgedMessage:
    return JudgedMessage(
        f"{number:024}",
        START + number * DAY / 100,
        ours,
        {FilterVerdict.HAM: 0.01, FilterVerdict.UNSURE: 0.6, FilterVerdict.SPAM: 0.995}[ours],
        OtherVerdict(theirs, 7.25 if theirs is FilterVerdict.SPAM else None),
        label,
        drawn,
        subject,
    )


def comparison(
    *kinds: tuple[int, FilterVerdict, FilterVerdict, str | None], drawn: int = 0, we_act: bool = False
) -> Comparison:
    """So many messages of each kind, in this order; the first ``drawn`` are of the fair sample."""
    rows = [row for count, *row in kinds for _ in range(count)]
    messages = [judged(n, *row, drawn=n < drawn) for n, row in enumerate(rows)]  # type: ignore[arg-type]
    return Comparison("rspamd", messages, LeftOut(without_verdict=3), we_act)


EXAMPLE = (
    (796, FilterVerdict.HAM, FilterVerdict.HAM, "ham"),
    (3, FilterVerdict.HAM, FilterVerdict.SPAM, "ham"),
    (1, FilterVerdict.SPAM, FilterVerdict.SPAM, "ham"),
    (29, FilterVerdict.UNSURE, FilterVerdict.HAM, "spam"),
    (2, FilterVerdict.HAM, FilterVerdict.SPAM, "spam"),
    (26, FilterVerdict.SPAM, FilterVerdict.HAM, "spam"),
    (347, FilterVerdict.SPAM, FilterVerdict.SPAM, "spam"),
    (40, FilterVerdict.SPAM, FilterVerdict.HAM, None),
)
"""1,204 labelled messages."""
