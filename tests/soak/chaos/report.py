"""What a run says at its end: a table, and each deviation with the events around it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from tests.soak.chaos.deviations import Deviation
from tests.soak.chaos.journal import FeedbackOutcome, Journal, MailOutcome

_SECONDS_AROUND = 6.0
_LINES_AROUND = 30
_SHOWN_DEVIATIONS = 20


def render_table(journal: Journal, deviations: Sequence[Deviation]) -> str:
    """Return the figures of a run."""
    kinds = Counter(fault.kind for fault in journal.faults)
    mail = Counter(attempt.outcome for attempt in journal.mail)
    lessons = Counter(attempt.outcome for attempt in journal.lessons)
    acknowledged = lessons.total() - lessons[FeedbackOutcome.UNKNOWN] - lessons[FeedbackOutcome.NOT_SENT]
    rows = [(str(kind), str(count)) for kind, count in sorted(kinds.items())]
    rows += [
        ("events", str(kinds.total())),
        ("mails acknowledged", str(mail[MailOutcome.ACKNOWLEDGED])),
        ("mails refused", str(mail[MailOutcome.REFUSED])),
        ("mails not sent, since nobody listened", str(mail[MailOutcome.NOT_SENT])),
        ("mails without an answer", str(mail[MailOutcome.UNKNOWN])),
        ("seconds without an acknowledged mail, at most", f"{_longest_gap(journal):.1f}"),
        ("lessons acknowledged", str(acknowledged)),
        ("lessons that changed something", str(lessons[FeedbackOutcome.CHANGED])),
        ("lessons refused, or without an answer", str(lessons[FeedbackOutcome.UNKNOWN])),
        ("lessons not sent, since nobody listened", str(lessons[FeedbackOutcome.NOT_SENT])),
        ("stream requests", str(len(journal.requests))),
        ("checks answered", str(journal.checks["200"])),
        ("checks refused, or without an answer", str(journal.checks.total() - journal.checks["200"])),
        ("deviations", str(len(deviations))),
    ]
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:{width}}  {value:>7}" for name, value in rows)


def _longest_gap(journal: Journal) -> float:
    """Return the longest time in which no mail was acknowledged, in seconds."""
    times = [0.0, *(mail.ended for mail in journal.mail if mail.outcome is MailOutcome.ACKNOWLEDGED)]
    return max((later - earlier for earlier, later in pairwise(times)), default=0.0)


def render_deviations(journal_file: Path, deviations: Sequence[Deviation]) -> str:
    """Return the deviations, each with the lines of the journal around its time."""
    texts = []
    for deviation in deviations[:_SHOWN_DEVIATIONS]:
        at = "" if deviation.at is None else f" at {deviation.at:.1f} s"
        texts.append(f"deviation{at}: {deviation.text}")
        if deviation.at is not None:
            texts += [f"    {line}" for line in _lines_around(journal_file, deviation.at)][:_LINES_AROUND]
    if len(deviations) > _SHOWN_DEVIATIONS:
        texts.append(f"and {len(deviations) - _SHOWN_DEVIATIONS} more")
    return "\n".join(texts)


def _lines_around(journal_file: Path, at: float) -> Iterator[str]:
    """Yield the faults, starts and ends of programs within some seconds of that time."""
    with journal_file.open(encoding="utf-8") as lines:
        for line in lines:
            entry = json.loads(line)
            is_event = entry["what"] not in {"mail", "lesson", "stream request"}
            if is_event and at - 2 * _SECONDS_AROUND <= entry["at"] <= at + _SECONDS_AROUND:
                yield line.rstrip()
