"""The facts of the machine."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

from tests.benchmarks.speed.processes import output

_LIBRARY = Path("nbstream", "engine", "libnbstream_native.so")
_ASK_FOR_ENGINE = (
    "from nbstream.engine.choice import choose_engine; "
    "engine = choose_engine(); print(engine.name, engine.reason, sep=': ')"
)


def unfit_library(tree: Path) -> str | None:
    """Return why the native library of a checkout is not its engine; None where it is, or is not built or wanted.

    The daemon would quietly take the engine in Python, and its figures would be taken for those of the library.
    """
    if not (tree / _LIBRARY).exists() or os.environ.get("NBSTREAM_ENGINE"):
        return None
    asked = subprocess.run(
        [sys.executable, "-c", _ASK_FOR_ENGINE], cwd=tree, capture_output=True, text=True, check=True
    )
    engine, _, reason = asked.stdout.strip().partition(": ")
    return None if engine == "native" else reason


def facts(tree: Path) -> dict[str, str]:
    """What figures depend on; ``tree`` is the checkout that is measured."""
    processors = Path("/proc/cpuinfo").read_text().splitlines()
    model = next(
        (line.partition(":")[2].strip() for line in processors if line.startswith("model name")), "unknown"
    )
    return {
        "nbstream": output("git", "-C", tree, "describe", "--always", "--dirty").strip(),
        "CPU": model,
        "cores": str(os.cpu_count()),
        "Python": platform.python_version(),
    }
