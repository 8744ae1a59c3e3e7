"""wrk, an HTTP load client in C."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from tests.benchmarks.speed.bench import Labelled
from tests.benchmarks.speed.processes import CannotMeasure, output, program

_MARK = "found "
_SCRIPT = Path(__file__).with_name("wrk.lua")


class Wrk:
    """Posts messages over some connections at once, as fast as they are answered."""

    def __init__(self, messages: Sequence[Labelled], folder: Path, connections: int = 4) -> None:
        self._program = program("wrk", "wrk")
        self._connections = connections
        self._list = folder / "messages.txt"
        self._list.write_text("".join(f"{path}\n" for _, path in messages))

    @property
    def version(self) -> str:
        """The version as the program prints it."""
        return " ".join(output(self._program, "-v").split()[:2])

    def post(self, address: str, path: str, seconds: float) -> tuple[int, float]:
        """Load a server for some seconds; return the number of answers and the seconds.

        Raises ``CannotMeasure`` if an answer was wrong.
        """
        url = f"http://{address}/"
        options = [
            "-t1",
            f"-c{self._connections}",
            f"-d{max(1, round(seconds))}s",
            "--timeout",
            "20s",
            "-s",
            str(_SCRIPT),
        ]
        words = [self._program, *options, url, "--", str(self._list), path]
        return read_result(output(*words, seconds=seconds + 60))


def read_result(text: str) -> tuple[int, float]:
    """Return answers and seconds from wrk.lua's line; raise ``CannotMeasure`` without it or with wrong answers."""
    line = next((line for line in text.splitlines() if line.startswith(_MARK)), None)
    if line is None:
        raise CannotMeasure(f"wrk: {text.strip()[-300:]}")
    facts = json.loads(line.removeprefix(_MARK))
    if facts["status"] or facts["broken"] or not facts["requests"]:
        raise CannotMeasure(f"wrk: not all was answered well: {line}")
    return facts["requests"], facts["microseconds"] / 1e6
