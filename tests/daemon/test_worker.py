"""How a worker begins."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping

from nbstream import __version__
from nbstream.daemon import worker
from nbstream.daemon.config import make_settings

# What it would serve with is shown instead.
BEGINNING = """
import os, sys
from nbstream.daemon import worker
async def serve(start, parent):
    settings = worker._read_settings(start["settings"])
    print(os.get_inheritable(parent.connection.fileno()), sys.getswitchinterval() < 0.005, settings.verdict.spam)
worker._serve = serve
sys.exit(worker.main())
"""


def run(program: str, start: Mapping[str, object], theirs: socket.socket, *files: int) -> tuple[int, str, str]:
    words = [sys.executable, "-P", "-c", program, json.dumps({"parent": theirs.fileno(), **start})]
    done = subprocess.run(
        words, pass_fds=[theirs.fileno(), *files], capture_output=True, text=True, timeout=60, check=False
    )
    return done.returncode, done.stdout, done.stderr


def test_it_has_the_settings_and_no_child_inherits_its_socket_and_the_loop_waits_as_short_as_alone() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    file = worker.settings_file(make_settings({"verdict": {"spam": 0.9}}))
    with ours, theirs:
        assert run(BEGINNING, {"settings": file}, theirs, file) == (0, "False True 0.9\n", "")
    os.close(file)


FAILING = """
import sys
from nbstream.daemon import worker
from nbstream.errors import ConfigError
async def serve(start, parent):
    raise ConfigError("/etc/" + chr(0xdcff) + chr(0xd800) + ".yaml: cannot be read")
worker._serve = serve
sys.exit(worker.main())
"""


def test_a_parent_of_another_version_learns_that_it_must_be_restarted() -> None:
    started_by = "import sys; from nbstream.daemon.worker import main; sys.exit(main())"
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        code, _, _ = run(started_by, {"version": "0.6.0"}, theirs)
        said = ours.recv(1000).decode()

    assert code == worker.FAILED_FOR_NOW
    assert said == f"failed nbstream 0.6.0 runs, but {__version__} is installed: restart the daemon"
