"""The plan of the speed benchmarks: the parts in their order, the units, and the targets."""

from __future__ import annotations

from dataclasses import dataclass

TEACHING = "teaching"
"""The part that runs first if another part needs taught models."""

PARTS = {
    "stages": 180.0,
    "sizes": 150.0,
    "listeners": 360.0,
    "latency": 600.0,
    "ways": 1000.0,
    "learning": 600.0,
    "feedback": 600.0,
    "start": 300.0,
    "workers": 150.0,
    "lesson": 600.0,
    "ui": 1000.0,
}
"""The parts, and the seconds after which each one is ended: three times its duration on a quiet machine."""

SECONDS_TO_TEACH = 600.0
SECONDS_OF_LARGE = 1_500.0
UNTAUGHT = {"start"}

CPU_MICROSECONDS = "µs CPU each"
MICROSECONDS = "µs each"
CPU_MILLISECONDS = "ms CPU each"
RATE = "a second"
MILLISECONDS = "ms"
SECONDS = "s"
CPU_SECONDS = "s CPU"
MEGABYTES = "MB"
KILOBYTES = "kB over the wire"
BYTES = "bytes a token"
BYTES_WRITTEN = "bytes of AOF each"
PERCENT = "% CPU"
SHARE = "% of the messages"
READS = "reads of Redis a message"
TIMES = "times"

BOGOFILTER = "bogofilter -b"
BOGOFILTER_LESSONS = "bogofilter -s, -n, the same mbox"
BOGOFILTER_ALONE = "bogofilter -s, -n, a process a message"
RSPAMC = "rspamc learn_spam, learn_ham"
SA_LEARN = "sa-learn --mbox"
CRM114 = "crm114 learn, a process a message"
RSPAMD = "rspamd"
UNSYNCED = "the same without AOF"
PASS_THROUGH = "aiosmtpd, aiosmtplib"
QUEUE = "a queue of these service times, simulated"

MORE_IS_BETTER = {RATE}

CHECK = "check"
PYTHON_CHECK = "check, engine: python"
HTTP = "HTTP /checkv2"
SPAMD = "spamd CHECK"
SMTP = "SMTP in, SMTP out"
STREAM = "Redis stream"
BARE = "a bare server"
BARE_PIPE = "Python that copies"
WAYS = (
    "SMTP after the queue",
    "SMTP before the queue: a connection a message, XFORWARD",
    "LMTP in, LMTP out",
    "milter, unix socket",
    "spamd HEADERS, unix socket",
    "pipe: a process of nbstream-filter",
    "feedback of Dovecot, unix socket",
)
CONNECTIONS = 4
BULK = "nbstream learn, an mbox"
HELP = "nbstream --help"
IDLE = "idle worker, no model"
TWO_WORKERS = "HTTP, two workers"
ONE_WORKER = "one worker"
SHARES = (0.1, 0.5, 0.9)
PERCENTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
LARGE = "20 MB"
SIZES = {"1 kB": 1_000, "10 kB": 10_000, "100 kB": 100_000, "1 MB": 1_000_000, LARGE: 20_000_000}
BROWSERS = 10
CHECKS_BESIDE_BROWSERS = f"HTTP checks, the page open in {BROWSERS} browsers"
NO_BROWSER = "the same, the page not open"
CHECKS_BESIDE_LESSONS = "HTTP checks, 100 lessons a second beside them"
NO_LESSONS = "the same, no lessons"
STORED_FOR_PAGE = f"{SMTP}, with envelopes and activity"
NOTHING_STORED = "the same without"
FIRST_VIEW = "first view after the start, with its static files"
SLOWEST_SEARCH = "slowest search of messages, p99"
LONGEST_WAIT = f"longest added wait beside {LARGE} of "


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
        for case, times in ((CHECK, 1.3), (PYTHON_CHECK, 0.46))
    ),
    *(
        Target("sizes", f"{LONGEST_WAIT}{kind}", MILLISECONDS, "10 ms at most", at_most=10.0)
        for kind in ("text", "attachment")
    ),
    Target("listeners", HTTP, RATE, "3 times rspamd", 3.0, than=(HTTP, RATE, RSPAMD)),
    Target("listeners", HTTP, CPU_MILLISECONDS, "4 times rspamd", 4.0, than=(HTTP, CPU_MILLISECONDS, RSPAMD)),
    Target("listeners", SPAMD, RATE, "30 times SpamAssassin", 30.0, than=(SPAMD, RATE, "SpamAssassin")),
    Target("listeners", SMTP, RATE, "0.85 of a bare pass-through", 0.85, than=(SMTP, RATE, PASS_THROUGH)),
    *(
        Target("latency", f"{listener} at 50%, p99 of p50", TIMES, f"{most} times p50 at most", at_most=most)
        for listener, most in ((HTTP, 4), (SMTP, 6))
    ),
    Target(
        "latency",
        ratio(CHECKS_BESIDE_LESSONS, "p99"),
        TIMES,
        "1.5 at most",
        at_most=1.5,
    ),
    Target("learning", BULK, RATE, "0.5 times bogofilter", 0.5, than=(BULK, RATE, BOGOFILTER_LESSONS)),
    *(
        Target(
            "feedback",
            http_lessons(connections),
            RATE,
            f"{times} times rspamd",
            times,
            than=(http_lessons(connections), RATE, RSPAMD),
        )
        for connections, times in ((4, 1.5), (16, 2.5))
    ),
    Target("feedback", http_lessons(4), CPU_MILLISECONDS, "1.8 ms at most", at_most=1.8),
    Target("feedback", http_lessons(4), BYTES_WRITTEN, "8 kB at most", at_most=8_000.0),
    Target("learning", BULK, READS, "2 round trips at most", at_most=2.0),
    Target("start", HELP, MILLISECONDS, "150 ms at most", at_most=150.0),
    Target("start", IDLE, PERCENT, "0.5 % at most", at_most=0.5),
    Target("start", IDLE, MEGABYTES, "90 MB at most", at_most=90.0),
    *(
        Target("start", with_its_redis(tokens), SECONDS, f"{most} s at most", at_most=float(most))
        for tokens, most in ((_TOKENS, 1), (_MOST_TOKENS, 5))
    ),
    Target("start", further_worker(_TOKENS), SECONDS, "0.5 s at most", at_most=0.5),
    Target("start", worker(_TOKENS), BYTES, "110 bytes at most", at_most=110.0),
    Target("start", further_worker(_TOKENS), BYTES, "5 bytes at most", at_most=5.0),
    Target("ui", FIRST_VIEW, MILLISECONDS, "150 ms at most", at_most=150.0),
    Target("ui", FIRST_VIEW, KILOBYTES, "150 kB at most", at_most=150.0),
    Target("ui", SLOWEST_SEARCH, MILLISECONDS, "50 ms at most", at_most=50.0),
    *(
        Target("ui", ratio(CHECKS_BESIDE_BROWSERS, measure), TIMES, "1.02 at most", at_most=1.02)
        for measure in ("CPU", "p50", "p99")
    ),
    Target("workers", TWO_WORKERS, RATE, "1.8 times one", 1.8, than=(TWO_WORKERS, RATE, ONE_WORKER)),
)
