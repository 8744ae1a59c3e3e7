"""The plan of the speed benchmarks: the parts in their order, the units, and the targets."""

from __future__ import annotations

from dataclasses import dataclass

TEACHING = "teaching"
"""The part that runs first if another part needs taught models."""

PARTS = {
    "stages": 180.0,
    "listeners": 360.0,
    "learning": 600.0,
    "feedback": 600.0,
    "latency": 600.0,
    "capacity": 2_400.0,
    "start": 300.0,
}
"""The parts, and the seconds after which each one is ended: three times its duration on a quiet machine."""

SECONDS_TO_TEACH = 600.0
SECONDS_OF_LARGE = 1_500.0
UNTAUGHT = {"start"}

CPU_MICROSECONDS = "µs CPU each"
CPU_MILLISECONDS = "ms CPU each"
RATE = "a second"
MILLISECONDS = "ms"
SECONDS = "s"
CPU_SECONDS = "s CPU"
MEGABYTES = "MB"
BYTES = "bytes a token"
BYTES_WRITTEN = "bytes of AOF each"
PERCENT = "% CPU"
SHARE = "% of the messages"
TIMES = "times"
READS = "reads of Redis a message"

BOGOFILTER = "bogofilter -b"
BOGOFILTER_LESSONS = "bogofilter -s, -n, the same mbox"
BOGOFILTER_ALONE = "bogofilter -s, -n, a process a message"
RSPAMC = "rspamc learn_spam, learn_ham"
SA_LEARN = "sa-learn --mbox"
CRM114 = "crm114 learn, a process a message"
RSPAMD = "rspamd"
UNSYNCED = "the same without AOF"
PASS_THROUGH = "aiosmtpd, aiosmtplib"

MORE_IS_BETTER = {RATE}

CHECK = "check"
PYTHON_CHECK = "check, engine: python"
HTTP = "HTTP /checkv2"
SPAMD = "spamd CHECK"
SMTP = "SMTP in, SMTP out"
STREAM = "Redis stream"
CONNECTIONS = 4
BULK = "nbstream learn, an mbox"
HELP = "nbstream --help"
IDLE = "idle worker, no model"
PERCENTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
RATE_OF_CHECKS = RATE_OF_LESSONS = 100
CHECKS_ALONE = f"{RATE_OF_CHECKS} HTTP checks a second"
LESSONS_ALONE = f"{RATE_OF_LESSONS} HTTP lessons a second"
BESIDE_LESSONS = f"{CHECKS_ALONE}, beside {LESSONS_ALONE}"
BESIDE_LARGE = f"{CHECKS_ALONE}, beside messages of 20 MB"
WORKERS = (1, 2)
LONGEST_WAIT_SECONDS = 0.05


def started(tokens: int) -> str:
    """Return the name of the case in which a worker starts with that many tokens."""
    return f"start with {tokens:,} tokens"


def with_its_redis(tokens: int) -> str:
    """Return the name of the same case where the worker also starts its Redis, which loads its file."""
    return f"{started(tokens)}, and of its Redis"


def worker(tokens: int) -> str:
    """Return the name of the case of a worker with that many tokens."""
    return f"worker of {tokens:,} tokens"


def further_worker(tokens: int) -> str:
    """Return the name of the case of a worker beside another one on the same machine, with that many tokens."""
    return f"further worker of {tokens:,} tokens"


def http_lessons(connections: int) -> str:
    """Return the name of the case in which lessons come over that many connections."""
    return f"HTTP /learnspam, /learnham, {connections} connection{'s' if connections > 1 else ''}"


def capacity(listener: str, workers: int, lesson_rate: int) -> str:
    """Return the name of the case of mail through a listener, beside that many lessons a second."""
    beside = f", beside {lesson_rate} lesson{'s' if lesson_rate > 1 else ''} a second" if lesson_rate else ""
    return f"{listener}, {workers} worker{'s' if workers > 1 else ''}{beside}"


def ratio(case: str, measure: str) -> str:
    """Return the name of the case that says how many times as much the first of two sides takes."""
    return f"{case}, {measure} with / without"


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


_TOKENS = 2_000_000
_MOST_TOKENS = 10_000_000

TARGETS = (
    *(
        Target(
            "stages",
            case,
            CPU_MICROSECONDS,
            f"{times} times bogofilter -b",
            times,
            than=(CHECK, CPU_MICROSECONDS, BOGOFILTER),
        )
        for case, times in ((CHECK, 1.7), (PYTHON_CHECK, 0.46))
    ),
    Target("listeners", HTTP, RATE, "3 times rspamd", 3.0, than=(HTTP, RATE, RSPAMD)),
    Target("listeners", HTTP, CPU_MILLISECONDS, "4 times rspamd", 4.0, than=(HTTP, CPU_MILLISECONDS, RSPAMD)),
    Target("listeners", SPAMD, RATE, "30 times SpamAssassin", 30.0, than=(SPAMD, RATE, "SpamAssassin")),
    Target("listeners", SMTP, RATE, "0.9 of a bare pass-through", 0.9, than=(SMTP, RATE, PASS_THROUGH)),
    Target("learning", BULK, RATE, "0.35 times bogofilter", 0.35, than=(BULK, RATE, BOGOFILTER_LESSONS)),
    *(
        Target(
            "feedback",
            http_lessons(connections),
            RATE,
            f"{times} times rspamd",
            times,
            than=(http_lessons(connections), RATE, RSPAMD),
        )
        for connections, times in ((4, 1.5), (16, 2.0))
    ),
    *(
        Target("feedback", http_lessons(connections), CPU_MILLISECONDS, f"{most} ms at most", at_most=most)
        for connections, most in ((1, 2.8), (16, 1.6))
    ),
    Target("feedback", http_lessons(4), BYTES_WRITTEN, "8 kB at most", at_most=8_000.0),
    Target("latency", ratio(BESIDE_LESSONS, "p99"), TIMES, "1.5 times at most", at_most=1.5),
    Target("latency", ratio(BESIDE_LESSONS, "CPU"), TIMES, "1.2 times at most", at_most=1.2),
    Target("learning", BULK, READS, "2 round trips at most", at_most=2.0),
    Target("start", HELP, MILLISECONDS, "150 ms at most", at_most=150.0),
    Target("start", IDLE, PERCENT, "0.2 % at most", at_most=0.2),
    Target("start", IDLE, MEGABYTES, "75 MB at most", at_most=75.0),
    *(
        Target("start", with_its_redis(tokens), SECONDS, f"{most} s at most", at_most=float(most))
        for tokens, most in ((_TOKENS, 1), (_MOST_TOKENS, 5))
    ),
    Target("start", further_worker(_TOKENS), SECONDS, "0.5 s at most", at_most=0.5),
    Target("start", worker(_TOKENS), BYTES, "110 bytes at most", at_most=110.0),
)
