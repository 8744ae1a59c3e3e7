"""The report on a machine: as text with what it means, and as one JSON object."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.benchmarks.capacity.measurements import DAY_SECONDS, FEEDBACK_SHARES, PRIMARY_SHARE

if TYPE_CHECKING:
    from tests.benchmarks.capacity.measurements import Measurements
    from tests.benchmarks.capacity.queueing import LoadPoint

_LESSON_RATES = (1.0, 10.0, 100.0)
_WORKER_LOAD = 0.5  # at which the number of workers of a primary is reported


@dataclass(frozen=True, slots=True)
class CapacityReport:
    """The measurements, how long they took, and where: the names of things that a reader compares."""

    measurements: Measurements
    conditions: Mapping[str, str]
    seconds: float

    def to_json(self) -> str:
        """Return the report as one JSON object; times are in seconds, sizes in bytes."""
        measured = self.measurements
        check, lesson, mirrors = measured.check, measured.lesson, measured.mirrors
        content: dict[str, Any] = {
            "conditions": dict(self.conditions),
            "seconds": round(self.seconds, 1),
            "cpus": measured.cpus,
            "mail": {
                "messages": measured.mail.messages,
                "mean_bytes": round(measured.mail.mean_bytes),
                "mean_tokens": round(measured.mail.mean_tokens, 1),
            },
            "check": {
                "cpu_mean": _rounded(check.mean),
                "cpu_p50": _rounded(check.quantile(0.5)),
                "cpu_p99": _rounded(check.quantile(0.99)),
                "per_second": _rounded(1 / check.mean),
                "worker_cpu_http": _rounded(check.worker),
                "worker_per_second_http": _rounded(1 / check.worker),
            },
            "lesson": {
                "round_trip_p50": _rounded(lesson.quantile(0.5)),
                "round_trip_p99": _rounded(lesson.quantile(0.99)),
                "redis_cpu": _rounded(lesson.redis),
                "most_per_second": _rounded(lesson.most_per_second),
                "change_bytes": round(lesson.change_bytes),
                "ledger_bytes": round(lesson.ledger_bytes),
            },
            "remembered_message": {
                "redis_cpu": _rounded(measured.remembered.redis),
                "stored_bytes": round(measured.remembered.stored_bytes),
            },
            "mirror": {
                "redis_cpu_of_a_change": {str(number): _rounded(cost) for number, cost in mirrors.redis.items()},
                "redis_cpu_of_an_idle_second": _rounded(mirrors.idle),
                "worker_cpu_of_a_change": _rounded(mirrors.worker),
            },
            "token_bytes": {
                "worker": round(measured.tokens.worker, 1),
                "is_shared": measured.tokens.is_shared,
                "redis": round(measured.tokens.redis, 1),
            },
            "loads": [
                {
                    "load": point.load,
                    "messages_per_second": _rounded(point.rate),
                    "messages_per_day": round(point.rate * DAY_SECONDS),
                    "latency_p50": _rounded(point.p50),
                    "latency_p99": _rounded(point.p99),
                }
                for point in measured.loads()
            ],
            "primary": {
                "planned_share": PRIMARY_SHARE,
                "lessons_per_second": _rounded(measured.lessons_per_primary),
                "mirrors_at_lessons_per_second": {
                    f"{rate:g}": measured.mirrors_fed(rate) for rate in _LESSON_RATES
                },
                "workers_at_feedback_share": {
                    f"{share:g}": measured.workers_per_primary(share, _WORKER_LOAD) for share in FEEDBACK_SHARES
                },
            },
        }
        return json.dumps(content, indent=2)

    def to_text(self) -> str:
        """Return the report as a table of what was measured, and one of what it means."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        measured = self.measurements
        mail = measured.mail
        yield f"Measured in {self.seconds:.0f} s: {'; '.join(f'{k} {v}' for k, v in self.conditions.items())}."
        yield (
            f"The mail: {mail.messages:,} messages, in the mean of {mail.mean_bytes:,.0f} bytes and "
            f"{mail.mean_tokens:.0f} tokens."
        )
        yield ""
        yield from _aligned(self._costs())
        yield ""
        loads = measured.loads()
        yield f"What workers sustain (latency by a simulation of the queue; {measured.cpus} CPUs are here):"
        yield from _aligned(self._load_rows(loads))
        yield ""
        yield f"What one primary sustains, with {PRIMARY_SHARE:.0%} of its core:"
        yield from _aligned(self._primary_rows())

    def _costs(self) -> Iterator[Sequence[str]]:
        measured = self.measurements
        check, lesson, mirrors = measured.check, measured.lesson, measured.mirrors
        p50, p99 = check.quantile(0.5), check.quantile(0.99)
        yield (
            "a check, alone",
            f"{_ms(check.mean)} CPU",
            f"p50 {_ms(p50)}, p99 {_ms(p99)}; {1 / check.mean:,.0f} a second on one core",
        )
        yield (
            "a check through HTTP",
            f"{_ms(check.worker)} CPU",
            f"all that a worker does for it; {1 / check.worker:,.0f} a second on one core",
        )
        p50, p99 = lesson.quantile(0.5), lesson.quantile(0.99)
        yield (
            "a lesson, until it is on disk",
            _ms(p50),
            f"p99 {_ms(p99)}; one after another {1 / p50:,.0f} a second",
        )
        yield (
            "a lesson, in Redis",
            f"{_ms(lesson.redis)} CPU",
            f"{lesson.most_per_second:,.0f} a second by several at once",
        )
        yield "its change on the stream", _size(lesson.change_bytes), "to each mirror"
        yield "its ledger entry", _size(lesson.ledger_bytes), "in Redis"
        for number, cost in mirrors.redis.items():
            yield (
                f"a change, {number} mirror{'s' if number > 1 else ''}",
                f"{_us(cost)} CPU",
                "of Redis, for each mirror",
            )
        yield "a mirror that waits", f"{_us(mirrors.idle)} CPU", "of Redis in each second without a change"
        yield "a change, in a worker", f"{_us(mirrors.worker)} CPU", "of each worker that follows the model"
        remembered = measured.remembered
        yield (
            "a remembered message",
            f"{_us(remembered.redis)} CPU",
            f"of Redis, and {_size(remembered.stored_bytes)} there",
        )
        tokens = measured.tokens
        holder = "in the table of all workers" if tokens.is_shared else "in each worker"
        yield "a token", f"{tokens.worker:.0f} bytes", f"{holder}, and {tokens.redis:.0f} in Redis"

    def _load_rows(self, loads: Sequence[LoadPoint]) -> Iterator[Sequence[str]]:
        cpus = self.measurements.cpus
        yield "load", "one worker", "a day", f"{cpus} workers", "a day", "p50", "p99"
        for point in loads:
            many = point.rate * cpus
            yield (
                f"{point.load:.0%}",
                f"{point.rate:,.0f}/s",
                _count(point.rate * DAY_SECONDS),
                f"{many:,.0f}/s",
                _count(many * DAY_SECONDS),
                _ms(point.p50),
                _ms(point.p99),
            )

    def _primary_rows(self) -> Iterator[Sequence[str]]:
        measured = self.measurements
        yield "lessons", f"{measured.lessons_per_primary:,.0f} a second", "without mirrors"
        for rate in _LESSON_RATES:
            yield (
                "mirrors",
                f"{measured.mirrors_fed(rate):,}",
                f"at {rate:g} lesson{'s' if rate > 1 else ''} a second, without mail",
            )
        for share in FEEDBACK_SHARES:
            workers = measured.workers_per_primary(share, _WORKER_LOAD)
            day = workers * DAY_SECONDS * measured.worker_rate(_WORKER_LOAD)
            yield (
                "workers",
                f"{workers:,}",
                f"at {_WORKER_LOAD:.0%} load, if {share:.1%} of their mail is labelled: {_count(day)} a day",
            )


def _aligned(rows: Iterator[Sequence[str]]) -> Iterator[str]:
    """Yield the rows in columns: the first and the last to the left, the others to the right."""
    table = list(rows)
    widths = [max(len(cell) for cell in column) for column in zip(*table, strict=True)]
    last = len(widths) - 1
    for row in table:
        cells = [
            cell.ljust(width) if i in {0, last} else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield f"  {'   '.join(cells)}".rstrip()


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:,.{2 if seconds < 0.01 else 1 if seconds < 0.1 else 0}f} ms"


def _us(seconds: float) -> str:
    return f"{1e6 * seconds:,.0f} µs"


def _size(size: float) -> str:
    return f"{size / 1000:,.1f} kB"


def _count(number: float) -> str:
    return (
        f"{number / 1e9:,.1f} billion"
        if number >= 1e9
        else f"{number / 1e6:,.1f} million"
        if number >= 1e5
        else f"{number:,.0f}"
    )
