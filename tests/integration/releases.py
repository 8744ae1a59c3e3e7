"""A previous release, for tests: with the sources in the history of the checkout, and the packages of this one."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import nbstream
from tests.integration.daemon import DEADLINE_SECONDS, DaemonProcess

PREVIOUS = "0.7.0", "75e1c76c"
"""The version of the previous release, and its commit."""

CHECKOUT = Path(nbstream.__file__).parents[1]


@dataclass(frozen=True)
class Release:
    """A release of nbstream in a folder, with a configuration of its own for the common Redis."""

    folder: Path
    config: Path

    @property
    def words(self) -> tuple[str, ...]:
        """What runs a program of this release: Python looks into the present folder first."""
        return "env", "-C", str(self.folder)

    def command(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        words = [*self.words, sys.executable, "-m", "nbstream.cli", *map(str, arguments), "-c", str(self.config)]
        return subprocess.run(words, capture_output=True, text=True, timeout=DEADLINE_SECONDS, check=False)

    def daemon(self) -> DaemonProcess:
        return DaemonProcess(self.config, *self.words)


def unpack(release: tuple[str, str], folder: Path) -> Path:
    """Return the folder with the sources of a release."""
    version, commit = release
    packed = subprocess.run(["git", "-C", str(CHECKOUT), "archive", commit], capture_output=True, check=False)
    if packed.returncode:
        pytest.skip(f"the checkout does not have the commit of {version}")
    (folder / version).mkdir()
    subprocess.run(["tar", "-x", "-C", str(folder / version)], input=packed.stdout, check=True)
    return folder / version
