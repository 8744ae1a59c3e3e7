"""How a worker begins."""

from __future__ import annotations

import json
import socket
import subprocess
import sys

from nbstream import __version__
from nbstream.daemon import worker

# What it would serve with is shown instead.
BEGINNING = """
import os, sys
from nbstream.daemon import worker
async def serve(end):
    print(os.get_inheritable(end.fileno()), sys.getswitchinterval() < 0.005)
    return 0
worker._serve_channel = serve
sys.exit(worker.main())
"""


def test_no_child_inherits_the_channel_and_the_loop_waits_as_short_as_in_a_single_process() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        words = [sys.executable, "-c", BEGINNING, str(theirs.fileno())]
        done = subprocess.run(
            words, pass_fds=[theirs.fileno()], capture_output=True, text=True, timeout=60, check=False
        )

    assert (done.returncode, done.stdout, done.stderr) == (0, "False True\n", "")


def test_a_supervisor_of_another_version_learns_that_it_must_be_restarted() -> None:
    started_by = "import sys; from nbstream.daemon.worker import main; sys.exit(main())"
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(json.dumps({"version": "0.6.0"}).encode() + b"\n")
        words = [sys.executable, "-P", "-c", started_by, str(theirs.fileno())]
        done = subprocess.run(
            words, pass_fds=[theirs.fileno()], capture_output=True, text=True, timeout=60, check=False
        )
        theirs.close()
        said = ours.makefile().read()

    assert done.returncode == worker.FAILED_FOR_NOW
    assert f"nbstream 0.6.0 runs, but {__version__} is installed: restart the daemon" in said
