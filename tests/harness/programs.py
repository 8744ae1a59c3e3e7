"""Programs of other packages that tests run: they are found here, and one that is missing skips its tests visibly.

A missing program is a visible skip at home and a failure where ``CI=true``. A test asks for each program that it
runs before it needs anything else of its package, such as the package's user.
"""

from __future__ import annotations

import os
import shutil

import pytest

_SYSTEM_PATH = "/usr/sbin:/usr/local/sbin:/sbin"


def missing(what: str) -> None:
    """Skip at home, fail in CI."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"{what} is missing")
    pytest.skip(f"{what} is missing")


def needs_root() -> None:
    """Skip where this is not root, whom mail servers need in order to run as their users."""
    if os.geteuid() != 0:
        pytest.skip("only root can start a mail server")


def find_program(name: str) -> str:
    """Return the path of a program, which a Debian package brings; skip where it is not installed."""
    path = shutil.which(name) or shutil.which(name, path=_SYSTEM_PATH)
    if path is None:
        missing(name)
    return str(path)
