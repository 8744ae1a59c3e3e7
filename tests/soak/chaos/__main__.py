"""``python -m tests.soak.chaos``: one run by a seed; the exit code is 1 where anything is wrong."""

from __future__ import annotations

import argparse
import asyncio
import logging
import shutil
import sys
import tempfile
import time
from pathlib import Path

from nbstream.store.embedded import find_servers
from tests.soak.chaos.report import render_deviations, render_table
from tests.soak.chaos.run import RunOptions, run_chaos

_SECONDS_PER_EVENT = 1.5
_KEPT_FILES = ("*.jsonl", "*.json", "*.log", "*.yaml", "*/daemon.log")


def main() -> int:
    options = _parse()
    servers = find_servers()
    if not servers:
        print("no Redis or Valkey server is installed", file=sys.stderr)
        return 2
    seconds = options.minutes * 60
    events = options.events or max(1, round(seconds / _SECONDS_PER_EVENT))
    print(f"seed {options.seed}, {events} events in {seconds:.0f} s", flush=True)
    with tempfile.TemporaryDirectory(prefix="chaos-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        logging.basicConfig(filename=folder / "followers.log")  # what the followers of this process say
        run_options = RunOptions(options.seed, seconds, events, folder, servers[0])
        try:
            result = asyncio.run(run_chaos(run_options))
            print(render_table(result.journal, result.deviations))
            print(render_deviations(result.journal.file, result.deviations))
        finally:
            if options.keep:
                _keep(folder, options.keep)
    return 1 if result.deviations else 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.soak.chaos", description=__doc__)
    parser.add_argument(
        "--seed", type=int, default=round(time.time()), help="of the schedule; without it the time"
    )
    parser.add_argument("--minutes", type=float, default=5.0, help="how long there are events")
    parser.add_argument("--events", type=int, help=f"how many; without it one in {_SECONDS_PER_EVENT} s")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="gets the event log, the schedule and the logs")
    return parser.parse_args()


def _keep(folder: Path, target: Path) -> None:
    """Copy what is needed to understand a run."""
    for pattern in _KEPT_FILES:
        for file in folder.glob(pattern):
            copy = target / file.relative_to(folder)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, copy)


if __name__ == "__main__":
    sys.exit(main())
