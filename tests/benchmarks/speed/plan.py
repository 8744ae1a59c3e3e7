"""What is measured, in which order, in which units, and what is aimed at."""

from __future__ import annotations

from dataclasses import dataclass

PARTS = {
    "stages": 120.0,
    "sizes": 90.0,
    "doors": 240.0,
    "latency": 120.0,
    "learning": 120.0,
    "start": 150.0,
    "workers": 60.0,
}
"""The parts, and the seconds that each may take; what is not done by then is skipped."""

CPU_MICROSECONDS = "µs CPU each"
CPU_MILLISECONDS = "ms CPU each"
RATE = "a second"
MILLISECONDS = "ms"
SECONDS = "s"
MEGABYTES = "MB"
BYTES = "bytes a token"
PERCENT = "% CPU"
COMMANDS = "a message"

MORE_IS_BETTER = {RATE}

CHECK = "check"
HTTP = "HTTP /checkv2"


@dataclass(frozen=True, slots=True)
class Target:
    """``aim`` in words; reached is our figure, or how many times better than ``than`` it is.

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
        "ahead of bogofilter -b",
        1.0,
        than=(CHECK, CPU_MICROSECONDS, "bogofilter -b"),
    ),
)

TEXTS = {
    "stages": "Microseconds of CPU a message.",
    "sizes": "-",
    "doors": "-",
    "latency": "-",
    "learning": "-",
    "start": "-",
    "workers": "-",
}

TEXT = """\
# Speed

Written by `make bench CORPORA=DIR`.

| | |
|---|---|
{facts}
## Targets

{targets}
{parts}"""
