"""Ctrl-C: in order the first time, at once the second, and never a traceback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from nbstream.cli.exit_codes import EX_INTERRUPTED
from tests.harness.redis.redis_server import RedisServer
from tests.harness.waiting import DEADLINE_SECONDS

BEFORE_IT_RUNS = """
import os, signal, sys
from nbstream.cli import main

main.import_command = lambda name: os.kill(os.getpid(), signal.SIGINT)
sys.argv = ["nbstream", "status"]
sys.exit(main.main())
"""

RUNNING = """
import asyncio, os, signal
from nbstream import interrupts

async def work():
    try:
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        print("not heard", flush=True)
    finally:
        print("ending", flush=True)
        {ending}

try:
    interrupts.run_interruptible(work())
except KeyboardInterrupt:
    print("ended", flush=True)
"""


def done(script: str, *, ignored: bool = False) -> tuple[int, str, str]:
    """A script with Ctrl-C as on a terminal, or ``ignored`` as in the background: exit code, output, errors."""
    words = ["env", f"--{'ignore' if ignored else 'default'}-signal=INT", sys.executable, "-c", script]
    result = subprocess.run(words, capture_output=True, text=True, timeout=DEADLINE_SECONDS, check=False)
    return result.returncode, result.stdout, result.stderr


def test_before_a_command_runs_it_ends_without_a_word() -> None:
    assert done(BEFORE_IT_RUNS) == (-signal.SIGINT, "", "")


def test_the_first_lets_a_command_end_in_order() -> None:
    assert done(RUNNING.format(ending="await asyncio.sleep(0)")) == (0, "ending\nended\n", "")


def test_the_second_ends_it_at_once_without_a_word() -> None:
    ending = "os.kill(os.getpid(), signal.SIGINT); await asyncio.Event().wait()"

    assert done(RUNNING.format(ending=ending)) == (-signal.SIGINT, "ending\n", "")


def test_it_ends_a_command_that_waits_for_something_to_read(shared_redis: RedisServer, tmp_path: Path) -> None:
    config, pipe = tmp_path / "nb.yaml", tmp_path / "pipe"
    config.write_text(f"state_dir: {tmp_path}\nredis: {{url: '{shared_redis.url}'}}\nmodel: {{name: waiting}}\n")
    os.mkfifo(pipe)
    words = ["env", "--default-signal=INT", sys.executable, "-m", "nbstream.cli", "check", "-c", config, pipe]
    process = subprocess.Popen(list(map(str, words)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with pipe.open("wb"):  # once the command reads from it
        process.send_signal(signal.SIGINT)

        out, said = process.communicate(timeout=DEADLINE_SECONDS)

    assert (process.returncode, out, said) == (EX_INTERRUPTED, "", "")
