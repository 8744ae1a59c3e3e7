"""The facts of the machine."""

from __future__ import annotations

import os
import platform
from pathlib import Path

from tests.benchmarks.speed.processes import output


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
