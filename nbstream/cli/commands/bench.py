"""``nbstream bench``: what this machine sustains, by measuring the costs of a check and of a lesson.

Rules: the model of the configuration is left alone; see ``machine_bench``. SIGTERM, and SIGHUP of a terminal that
is closed, end it as Ctrl-C does, and nothing is left behind.
"""

from __future__ import annotations

import argparse
import itertools
import platform
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tqdm import tqdm

from nbstream import config
from nbstream.assembly.engine import make_engine
from nbstream.capacity.generated_mail import GeneratedMail, generate_mail
from nbstream.capacity.report import CapacityReport
from nbstream.cli import interrupts, message_files
from nbstream.cli.exit_codes import exit_code
from nbstream.cli.machine_bench import STEPS, measure_machine
from nbstream.cli.terminal import print_error, print_note
from nbstream.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nbstream.config import Settings

_FEWEST_MESSAGES = 20
_CPU_INFO = Path("/proc/cpuinfo")


def run(options: argparse.Namespace) -> int:
    """Print the report; 66 when a path of ``--mail`` cannot be read (the rest is measured)."""
    settings = config.load_settings(config.find_config_file(options.config))
    errors: list[InputError] = []
    if options.messages < _FEWEST_MESSAGES:
        options.wrong_usage(f"--messages must be at least {_FEWEST_MESSAGES}")
    mail = _read_mail(options, errors)
    kind = "your own" if options.mail else f"generated, seed {options.seed}"
    print_note("nothing of your model is read or changed: this measures with a private Redis, removed at the end")
    report = interrupts.run_interruptible(_measure(settings, mail, kind))
    print(report.to_json() if options.json else report.to_text())
    for error in errors:
        print_error(error)
    return exit_code(errors[0]) if errors else 0


def _read_mail(options: argparse.Namespace, errors: list[InputError]) -> Sequence[GeneratedMail]:
    """Return the messages; those of a user get the two labels in turn, which costs as much as the right ones."""
    if not options.mail:
        return list(generate_mail(options.messages, options.seed))
    sources = itertools.islice(message_files.read_messages(options.mail, errors), options.messages)
    mail = [GeneratedMail(("ham", "spam")[i % 2], source.raw) for i, source in enumerate(sources)]
    if len(mail) < _FEWEST_MESSAGES:
        raise (
            errors[0] if errors else InputError(f"{len(mail)} messages are too few: {_FEWEST_MESSAGES} are needed")
        )
    return mail


async def _measure(settings: Settings, mail: Sequence[GeneratedMail], kind: str) -> CapacityReport:
    interrupts.cancel_on(signal.SIGTERM, signal.SIGHUP)
    started = time.perf_counter()
    with tqdm(
        total=STEPS, disable=not sys.stderr.isatty(), leave=False, bar_format="{n}/{total} {desc} ({elapsed})"
    ) as bar:

        def begin_step(step: str) -> None:
            bar.set_description_str(step, refresh=False)
            bar.update()
            bar.refresh()

        machine = await measure_machine(settings, mail, begin_step)
    conditions = {
        "mail": kind,
        "CPU": f"{machine.measurements.cpus} x {_cpu_name()}",
        "Python": platform.python_version(),
        "engine": make_engine(settings).name,
        "server": machine.redis,
        "disk of": str(machine.folder),
    }
    return CapacityReport(machine.measurements, conditions, time.perf_counter() - started)


def _cpu_name() -> str:
    """Return the name of the CPU as the kernel knows it, or else the kind of machine."""
    try:
        lines = _CPU_INFO.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
