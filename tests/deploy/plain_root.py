"""Servers in namespaces and a root folder of their own, where a package or an image cannot be installed.

The root is an overlay over this machine's files: nobody else sees what is written there. A module with a ``main``
is run by ``run_alone``: within it there is a network of its own, and all processes end with it. That takes the
rights of root.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.harness.daemon import wait_until
from tests.harness.programs import missing

_ALONE = ("unshare", "--net", "--mount", "--pid", "--fork", "--kill-child")
_SECONDS = 240
NBSTREAM = (sys.executable, "-m", "nbstream.cli")


def run_alone(module: str, *arguments: str | Path) -> None:
    """Run a module of the tests in namespaces of its own; fail with what it says where it fails."""
    if os.geteuid() or subprocess.run([*_ALONE, "true"], check=False, capture_output=True).returncode:
        pytest.skip("namespaces need the rights of root")
    done = subprocess.run(
        [*_ALONE, sys.executable, "-m", module, *map(str, arguments)],
        check=False,
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        cwd=Path(__file__).parents[2],
    )
    assert done.returncode == 0, done.stderr


def unpacked(variable: str, program: str) -> Path:
    """Return the folder that packages are unpacked in, as ``.ci/run`` does it; ``variable`` names it."""
    folder = Path(os.environ.get(variable, "/nonexistent"))
    if not (folder / program).exists():
        missing(f"an unpacked {Path(program).name}, {variable},")
    return folder


def run(*words: str | Path, **options: Any) -> str:
    """Run a command to its end, and return its output."""
    done: subprocess.CompletedProcess[str] = subprocess.run(
        [*map(str, words)], check=False, capture_output=True, text=True, timeout=120, **options
    )
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout


def make_root(folder: Path, packages: Path | None = None) -> Path:
    """Return a root folder over this machine's files, with the unpacked packages; ``folder`` is in a tmpfs."""
    upper, work, root = (folder / name for name in ("upper", "work", "root"))
    for path in (upper, work, root):
        path.mkdir(parents=True)
    run("mount", "-t", "overlay", "overlay", "-o", f"lowerdir=/,upperdir={upper},workdir={work}", root)
    run("mount", "--rbind", "/dev", root / "dev")
    if packages:
        into = f'tar -C "{packages}" --exclude=./archives -c . | tar -C "{root}" --keep-directory-symlink -x'
        run("sh", "-euc", into)
    return root


class RootedServer:
    """A server that runs in the root folder ``root``; its output is in ``log``."""

    def __init__(self, root: Path, name: str, *words: str) -> None:
        self._log = root.parent / f"{name}.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [*entering(root), *words], stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )

    @property
    def log(self) -> str:
        """What the server has written."""
        return self._log.read_text()

    def assert_runs(self) -> None:
        """Fail with the server's output where it has ended."""
        assert self._process.poll() is None, self.log

    def stop(self) -> None:
        """End the server, and return when it has ended."""
        self._process.terminate()
        self._process.wait(60)


def entering(root: Path) -> list[str]:
    """Return the words that run those after them in ``root``."""
    return ["unshare", "--mount", "sh", "-euc", f'mount -t proc proc {root}/proc; exec chroot {root} "$@"', "sh"]


def serve(root: Path, settings: Path) -> RootedServer:
    """Start nbstream in ``root`` with a copy of the file ``settings``, and return it when it accepts mail."""
    place = root / "etc" / "nbstream"
    place.mkdir()
    shutil.copy(settings, place / "nbstream.yaml")
    server = RootedServer(root, "nbstream", *NBSTREAM, "serve", "--config", "/etc/nbstream/nbstream.yaml")

    def is_ready() -> bool:
        server.assert_runs()
        return '"event":"ready"' in server.log

    wait_until(is_ready)
    return server


def learned(label: str) -> float:
    """Return how many messages the daemon has learned as ``label``."""
    with urllib.request.urlopen("http://127.0.0.1:11334/v1/model", timeout=20) as response:
        return float(json.load(response)["learned"][label])
