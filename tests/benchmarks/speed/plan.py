"""The plan of the speed benchmarks: the parts in their order, the units, and the targets."""

from __future__ import annotations

from dataclasses import dataclass

TEACHING = "teaching"
"""The part that runs first if another part needs taught models."""

PARTS = {
    "stages": 180.0,
    "sizes": 150.0,
    "listeners": 360.0,
    "latency": 240.0,
    "learning": 300.0,
    "start": 300.0,
    "workers": 150.0,
}
"""The parts, and the seconds after which each one is ended: three times its duration on a quiet machine."""

SECONDS_TO_TEACH = 600.0
UNTAUGHT = {"start"}

CPU_MICROSECONDS = "µs CPU each"
CPU_MILLISECONDS = "ms CPU each"
RATE = "a second"
MILLISECONDS = "ms"
SECONDS = "s"
CPU_SECONDS = "s CPU"
MEGABYTES = "MB"
BYTES = "bytes a token"
PERCENT = "% CPU"
SHARE = "% of the messages"
READS = "reads of Redis a message"
TIMES = "times"

BOGOFILTER = "bogofilter -b"
PASS_THROUGH = "aiosmtpd, aiosmtplib"

MORE_IS_BETTER = {RATE}

CHECK = "check"
HTTP = "HTTP /checkv2"
SPAMD = "spamd CHECK"
SMTP = "SMTP in, SMTP out"
STREAM = "Redis stream"
CONNECTIONS = 4
BULK = "nbstream learn, an mbox"
HTTP_LESSONS = "HTTP /learnspam, /learnham"
HELP = "nbstream --help"
IDLE = "idle worker, no model"
TWO_WORKERS = "HTTP, two workers"
ONE_WORKER = "one worker"
SHARES = (0.1, 0.5, 0.9)
PERCENTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
LARGE = "20 MB"
SIZES = {"1 kB": 1_000, "10 kB": 10_000, "100 kB": 100_000, "1 MB": 1_000_000, LARGE: 20_000_000}
LONGEST_WAIT = f"longest added wait beside {LARGE} of "


def started(tokens: int) -> str:
    """Return the name of the case in which a worker starts with that many tokens."""
    return f"start with {tokens:,} tokens"


@dataclass(frozen=True, slots=True)
class Target:
    """A target: ``aim`` in words, and the limits for the figure, or for how many times better than ``than`` it is.

    ``than`` is another figure of the same part: case, unit, who.
    """

    part: str
    case: str
    unit: str
    aim: str
    at_least: float | None = None
    at_most: float | None = None
    than: tuple[str, str, str] | None = None


TARGETS = (
    Target(
        "stages",
        CHECK,
        CPU_MICROSECONDS,
        "less CPU than bogofilter -b",
        1.0,
        than=(CHECK, CPU_MICROSECONDS, BOGOFILTER),
    ),
    *(
        Target("sizes", f"{LONGEST_WAIT}{kind}", MILLISECONDS, "50 ms at most", at_most=50.0)
        for kind in ("text", "attachment")
    ),
    Target("listeners", HTTP, RATE, "3 times rspamd", 3.0, than=(HTTP, RATE, "rspamd")),
    Target("listeners", HTTP, CPU_MILLISECONDS, "5 times rspamd", 5.0, than=(HTTP, CPU_MILLISECONDS, "rspamd")),
    Target("listeners", SPAMD, RATE, "30 times SpamAssassin", 30.0, than=(SPAMD, RATE, "SpamAssassin")),
    Target("listeners", SMTP, RATE, "0.6 of a bare pass-through", 0.6, than=(SMTP, RATE, PASS_THROUGH)),
    *(
        Target("latency", f"{listener} at 50%, p99 of p50", TIMES, "5 times p50 at most", at_most=5.0)
        for listener in (HTTP, SMTP)
    ),
    Target("learning", BULK, RATE, "1,000 a second", 1000.0),
    Target("learning", HTTP_LESSONS, RATE, "400 a second", 400.0),
    Target("learning", BULK, READS, "2 round trips at most", at_most=2.0),
    Target("start", HELP, MILLISECONDS, "150 ms at most", at_most=150.0),
    Target("start", IDLE, PERCENT, "0.5 % at most", at_most=0.5),
    Target("start", IDLE, MEGABYTES, "90 MB at most", at_most=90.0),
    Target("start", started(2_000_000), SECONDS, "8 s at most", at_most=8.0),
    Target("start", "worker of 2,000,000 tokens", BYTES, "200 bytes at most", at_most=200.0),
    Target("workers", TWO_WORKERS, RATE, "1.5 times one", 1.5, than=(TWO_WORKERS, RATE, ONE_WORKER)),
)
