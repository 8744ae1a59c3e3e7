"""One worker and two, behind the same port: HTTP checks by a C client.

There are 16 connections, because the kernel distributes them, and of four one worker may get all.
"""

from __future__ import annotations

import subprocess
from contextlib import ExitStack

from tests.benchmarks.speed.bench import Bench
from tests.benchmarks.speed.daemons import COMMAND, daemon, taught, write_config
from tests.benchmarks.speed.figures import OURS
from tests.benchmarks.speed.listeners import Side, in_turns
from tests.benchmarks.speed.plan import ONE_WORKER, TWO_WORKERS
from tests.benchmarks.speed.processes import CannotMeasure
from tests.benchmarks.speed.wrk import Wrk

_CONNECTIONS = 16


def run(bench: Bench) -> None:
    """Load both in turns."""
    with bench.skipping(TWO_WORKERS), ExitStack() as stack:
        wrk = Wrk(bench.checked, bench.new_folder("wrk"), _CONNECTIONS)
        sides = {}
        for who, number in {OURS: 2, ONE_WORKER: 1}.items():
            workers = {"workers": str(number)} if number > 1 else {}
            config = write_config(taught(bench), http=True, **workers)
            done = subprocess.run(
                [*COMMAND, "config", "check", config], cwd=config.parent, capture_output=True, check=False
            )
            if done.returncode:
                raise CannotMeasure("the configuration refuses workers")
            running = stack.enter_context(daemon(config))
            address = running.address("http")
            sides[who] = Side(
                (running.server,),
                lambda seconds, address=address: wrk.post(address, "/checkv2", seconds),  # type: ignore[misc]
            )
        in_turns(bench, TWO_WORKERS, sides)
