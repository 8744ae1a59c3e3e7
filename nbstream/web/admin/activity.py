"""Activity: what this daemon's own metrics said minute by minute, kept in memory for a day.

Rules: the metrics, merged over all workers, are looked at once a minute, and what they have counted since is one
row. Nothing is stored: Prometheus keeps weeks, and knows all hosts.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbstream.policy.verdict import Verdict

if TYPE_CHECKING:
    from prometheus_client.core import Metric

UNCHECKED = "unchecked"
"""What a message counts as whose check failed, and that has no verdict therefore."""
MESSAGE_CLASSES = (*map(str, Verdict), UNCHECKED)
"""What messages are counted by: each message counts in one of these classes."""

SAMPLE_SECONDS = 60
DAY_SECONDS = 86_400
_CLASS_BY_VERDICT = {
    **{str(verdict): str(verdict) for verdict in Verdict},
    "none": UNCHECKED,
}  # a canary is no mail


@dataclass(frozen=True, slots=True)
class MetricsSample:
    """What the metrics of the daemon say at a time, in seconds since the epoch.

    ``messages`` are those checked since the start, by class. ``connections`` are those of each listener: how many
    are ``open``, and were ``accepted`` and ``refused`` since the start. ``quarantined`` is the number of messages
    in the quarantine.
    """

    at: float
    messages: Mapping[str, int]
    connections: Mapping[str, Mapping[str, int]]
    quarantined: int = 0

    @classmethod
    def of(cls, families: Iterable[Metric], at: float) -> MetricsSample:
        """Return what these metrics say."""
        messages, connections, quarantined = Counter[str](), dict[str, Counter[str]](), 0
        for sample in (sample for family in families for sample in family.samples):
            labels, value = sample.labels, sample.value  # a threshold out of reach is infinite
            match sample.name:
                case "nbstream_messages_total" if labels["verdict"] in _CLASS_BY_VERDICT:
                    messages[_CLASS_BY_VERDICT[labels["verdict"]]] += int(value)
                case "nbstream_connections_total" | "nbstream_connections_open":
                    counts = connections.setdefault(labels["listener"], Counter())
                    counts[labels.get("outcome", "open")] += int(value)
                case "nbstream_quarantine_messages":
                    quarantined = int(value)
        return cls(at, messages, connections, quarantined)


@dataclass(frozen=True, slots=True)
class ActivityRow:
    """The numbers of messages by class in a piece of time that begins at ``at`` (seconds since the epoch)."""

    at: float
    classes: Mapping[str, int]

    @property
    def messages(self) -> int:
        """The number of messages."""
        return sum(self.classes.values())


def row_between(before: MetricsSample, after: MetricsSample) -> ActivityRow:
    """Return what was counted from one sample to the next. A count that has gone down has begun anew."""
    former = before.messages
    return ActivityRow(
        before.at,
        {
            name: count - (former.get(name, 0) if count >= former.get(name, 0) else 0)
            for name, count in after.messages.items()
        },
    )


def in_steps(rows: Iterable[ActivityRow], until: float, seconds: int, step_seconds: int) -> Sequence[ActivityRow]:
    """Return the last ``seconds`` in equal steps, the oldest first, each with the rows that begin in it.

    The steps begin at round times of the time zone of the daemon.
    """
    offset = time.localtime(until).tm_gmtoff
    end = (int(until) + offset) // step_seconds + 1
    steps: list[Counter[str]] = [
        Counter(dict.fromkeys(MESSAGE_CLASSES, 0)) for _ in range(seconds // step_seconds)
    ]
    for row in rows:
        place = (int(row.at) + offset) // step_seconds - end
        if -len(steps) <= place < 0:
            steps[place].update(row.classes)
    first = end - len(steps)
    return [ActivityRow((first + n) * step_seconds - offset, classes) for n, classes in enumerate(steps)]


class ActivityRecorder:
    """Remembers the activity of the last day; ``collect`` returns the metrics of all workers of the daemon."""

    def __init__(self, collect: Callable[[], Iterable[Metric]], clock: Callable[[], float] = time.time) -> None:
        self._collect = collect
        self._clock = clock
        self._last = self.sample()
        self._rows: deque[ActivityRow] = deque(maxlen=DAY_SECONDS // SAMPLE_SECONDS)

    def sample(self) -> MetricsSample:
        """Return what the metrics say now."""
        return MetricsSample.of(self._collect(), self._clock())

    async def record(self) -> None:
        """Remember what was counted since the last time: a step that is repeated every ``SAMPLE_SECONDS``."""
        now = self.sample()
        self._rows.append(row_between(self._last, now))
        self._last = now

    def rows_until(self, now: MetricsSample) -> Sequence[ActivityRow]:
        """Return what is remembered, the oldest first, and what was counted since then."""
        return [*self._rows, row_between(self._last, now)]
