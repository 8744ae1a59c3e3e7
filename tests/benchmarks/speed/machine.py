"""The facts of the machine."""

from __future__ import annotations

import os
import platform
from pathlib import Path


def facts() -> dict[str, str]:
    """What figures depend on."""
    processors = Path("/proc/cpuinfo").read_text().splitlines()
    model = next(
        (line.partition(":")[2].strip() for line in processors if line.startswith("model name")), "unknown"
    )
    return {
        "CPU": model,
        "cores": str(os.cpu_count()),
        "Python": platform.python_version(),
        "kernel": platform.release(),
        "load at the start": f"{os.getloadavg()[0]:.1f}",
    }
