"""Measure the capacity into CAPACITY.md; about two minutes on a quiet machine, without any corpus.

python -m tests.benchmarks.capacity [--print]
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

import uvloop

from nbstream.cli.generated_mail import generate_mail
from nbstream.config import Settings
from tests.benchmarks.capacity.machine import measure_machine
from tests.benchmarks.capacity.open_loop import ComparedLoad, compare
from tests.benchmarks.capacity.page import Capacity, page
from tests.benchmarks.capacity.replicas import measure_replicas
from tests.benchmarks.speed.machine import facts
from tests.benchmarks.speed.processes import ROOT

PAGE = Path(__file__).parents[1] / "CAPACITY.md"
MESSAGES, SEED = 1000, 17
COMPARED_LOADS = (0.5, 0.8)
ROUNDS = 2
SECONDS = 6.0
REPLICAS = (0, 2)
REPLICATED_LESSONS = 200


def main() -> None:
    """Measure, and write or print the page."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.capacity", description=__doc__)
    parser.add_argument("--print", action="store_true", help="print the page instead of writing it")
    options = parser.parse_args()
    text = page(uvloop.run(measure()))
    if options.print:
        print(text, end="")
    else:
        PAGE.write_text(text, encoding="utf-8")


async def measure() -> Capacity:
    """Measure all parts, one after another."""
    mail, load = list(generate_mail(MESSAGES, SEED)), os.getloadavg()[0]
    machine = await measure_machine(Settings(), mail, _say)
    comparisons: list[ComparedLoad] = []
    for number in range(1, ROUNDS + 1):
        _say(f"a real daemon, round {number}")
        comparisons += await compare(mail, COMPARED_LOADS, SECONDS)
    _say("replicas")
    replicas = await measure_replicas(mail[:REPLICATED_LESSONS], REPLICAS)
    described = facts(ROOT) | {
        "server": machine.redis,
        "mail": f"{MESSAGES:,} generated messages, seed {SEED}",
        "mean message": f"{machine.measurements.mail.mean_bytes:,.0f} bytes",
        "mean tokens": f"{machine.measurements.mail.mean_tokens:.0f}",
        "load average before and after": f"{load:.1f}, {os.getloadavg()[0]:.1f}",
    }
    return Capacity(described, machine.measurements, comparisons, replicas)


def _say(step: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {step}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
