"""``make bench``: measure the speed, beside peers where they are installed, into SPEED.json and SPEED.md.

    python -m tests.benchmarks.speed DIR [PART ...]

DIR holds trec07p-20k.tar.xz. With parts named only these are measured, and their tables are printed instead; with
``--update`` their figures take the place of the former ones.
``--tree`` measures another checkout of nbstream, such as the one before a change.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.benchmarks.speed.figures import LOAD, Report, Skip
from tests.benchmarks.speed.machine import facts, unfit_library
from tests.benchmarks.speed.page import page
from tests.benchmarks.speed.plan import PARTS, SECONDS_OF_LARGE, SECONDS_TO_TEACH, TEACHING, UNTAUGHT
from tests.benchmarks.speed.processes import ROOT
from tests.harness.corpora import unpack

PAGE = Path(__file__).parents[1] / "SPEED.md"

ARCHIVE, INDEX = "trec07p-20k.tar.xz", Path("trec07p-20k", "index.tsv")
REST = "the rest"
_END_SECONDS = 10.0


def main() -> None:
    """Unpack the mail, measure, write or print the page."""
    options = _options()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # a program that is installed has its bytecode
    if why := unfit_library(options.tree):
        sys.exit(f"bench: {why}; build it: python -m tools.build_native, in {options.tree}")
    archive = options.corpora / ARCHIVE
    if not archive.is_file():
        sys.exit(f"bench: {options.corpora} has no {ARCHIVE}")
    with tempfile.TemporaryDirectory(prefix="nb") as name:
        shared = (options.keep or Path(name)).absolute()
        Path(name).chmod(0o755)  # some peers do not stay root
        if not (shared / INDEX).exists():
            unpack(archive, shared)
        report = Report(facts(options.tree))
        load = os.getloadavg()[0]
        parts = options.parts or list(PARTS)
        for part in [TEACHING, *parts] if set(parts) - UNTAUGHT else parts:
            report.add(measure_part(part, Path(name), shared, options))
        report.machine[LOAD] = f"{load:.1f}, {os.getloadavg()[0]:.1f}"
    if options.update:
        measured, report = report, Report.from_json(PAGE.with_suffix(".json").read_text(encoding="utf-8"))
        for part in parts:
            report.replace_part(part, measured)
    if options.parts and not options.update:
        print(page(report))
    else:
        PAGE.write_text(page(report), encoding="utf-8")
    if options.json or options.update or not options.parts:
        (options.json or PAGE.with_suffix(".json")).write_text(report.to_json(), encoding="utf-8")
    sys.exit(1 if any(skip.what == REST for skip in report.skips) else 0)


def measure_part(part: str, folder: Path, shared: Path, options: argparse.Namespace) -> Report:
    """Run one part in a process of its own, and return its report."""
    saved, seconds = folder / f"{part}.json", PARTS.get(part, SECONDS_TO_TEACH)
    print(f"{time.strftime('%H:%M:%S')} {part}, at most {seconds:.0f} s", file=sys.stderr, flush=True)
    words = [sys.executable, "-m", "tests.benchmarks.speed.part", part]
    words += map(str, (shared / INDEX, folder, shared, saved, options.tree.absolute()))
    if options.large:
        words.append("large")
        seconds += SECONDS_OF_LARGE
    started = time.monotonic()
    process = subprocess.Popen(words, cwd=ROOT, start_new_session=True)
    skips = []
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        skips.append(Skip(part, REST, f"took longer than {seconds:.0f} s"))
    finally:
        _end(process)
    report = Report.from_json(saved.read_text()) if saved.exists() else Report({})
    if process.returncode and not skips:
        skips.append(Skip(part, REST, f"ended with {process.returncode}"))
    report.skips += skips
    report.took[part] = round(time.monotonic() - started, 1)
    return report


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the part, if it still runs, and the servers that it started."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is None:
            os.killpg(process.pid, number)
            try:
                process.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                continue


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.speed", description="Measure the speed.", allow_abbrev=False
    )
    parser.add_argument("corpora", type=Path, metavar="DIR", help=f"the folder of {ARCHIVE}")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"only these: {', '.join(PARTS)}")
    parser.add_argument("--json", type=Path, metavar="FILE", help="all figures of all rounds")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="where taught models stay for the next run")
    parser.add_argument("--tree", type=Path, default=ROOT, metavar="DIR", help="measure this checkout of nbstream")
    parser.add_argument("--update", action="store_true", help="put the parts into SPEED.json and SPEED.md")
    parser.add_argument("--large", action="store_true", help="also start with a model of 10,000,000 tokens")
    options = parser.parse_args()
    if unknown := set(options.parts) - PARTS.keys():
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    return options


if __name__ == "__main__":
    main()
