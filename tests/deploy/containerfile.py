"""Reading container files."""

from __future__ import annotations

import re
from pathlib import Path


def read_instructions(file: Path) -> list[tuple[str, str]]:
    """Return each instruction and its arguments, on one line."""
    lines = [line for line in file.read_text().splitlines() if not line.startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [(name, rest) for name, _, rest in (line.partition(" ") for line in joined.splitlines() if line)]
