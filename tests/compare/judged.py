"""Judged messages for tests."""

from __future__ import annotations

from nbstream.compare.comparison import Comparison, JudgedMessage, LeftOut
from nbstream.compare.fields import Call, OtherVerdict

DAY = 86_400.0
START = 1_795_000_000.0


def judged(
    number: int, ours: Call, theirs: Call, label: str | None = None, *, drawn: bool = False, subject: str = "hello"
) -> JudgedMessage:
    return JudgedMessage(
        f"{number:024}",
        START + number * DAY / 100,
        ours,
        {Call.HAM: 0.01, Call.UNSURE: 0.6, Call.SPAM: 0.995}[ours],
        OtherVerdict(theirs, 7.25 if theirs is Call.SPAM else None),
        label,
        drawn,
        subject,
    )


def comparison(*kinds: tuple[int, Call, Call, str | None], drawn: int = 0, we_act: bool = False) -> Comparison:
    """So many messages of each kind, in this order; the first ``drawn`` are of the fair sample."""
    rows = [row for count, *row in kinds for _ in range(count)]
    messages = [judged(n, *row, drawn=n < drawn) for n, row in enumerate(rows)]  # type: ignore[arg-type]
    return Comparison("rspamd", messages, LeftOut(without_verdict=3), we_act)


EXAMPLE = (
    (796, Call.HAM, Call.HAM, "ham"),
    (3, Call.HAM, Call.SPAM, "ham"),
    (1, Call.SPAM, Call.SPAM, "ham"),
    (29, Call.UNSURE, Call.HAM, "spam"),
    (2, Call.HAM, Call.SPAM, "spam"),
    (26, Call.SPAM, Call.HAM, "spam"),
    (347, Call.SPAM, Call.SPAM, "spam"),
    (40, Call.SPAM, Call.HAM, None),
)
"""1,204 labelled messages."""
