"""wrk, an HTTP load client in C."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.benchmarks.speed.bench import Labelled
from tests.benchmarks.speed.processes import CannotMeasure, output, program

_SCRIPT = Path(__file__).with_name("wrk.lua")


@dataclass(frozen=True, slots=True)
class Load:
    """What came of some seconds of load: answers and the seconds that they took."""

    answers: int
    seconds: float


class Wrk:
    """Posts messages over some connections at once, as fast as they are answered."""

    def __init__(self, messages: Sequence[Labelled], folder: Path, connections: int = 4) -> None:
        self._program = program("wrk", "wrk")
        self._connections = connections
        self._list = folder / "messages.txt"
        self._list.write_text("".join(f"{path}\n" for _, path in messages))

    @property
    def version(self) -> str:
        """As the program gives it."""
        return " ".join(output(self._program, "-v").split()[:2])

    def post(self, address: str, path: str, seconds: float) -> Load:
        """Load a server for some seconds. Raises ``CannotMeasure`` where any answer was not as it should be."""
        where = f"http://{address}/"
        options = ["-t1", f"-c{self._connections}", f"-d{seconds:.0f}s", "--timeout", "20s", "-s", str(_SCRIPT)]
        words = [self._program, *options, where, "--", str(self._list), path]
        return load(output(*words, seconds=seconds + 60))


def load(said: str) -> Load:
    """What wrk.lua's line says. Raises ``CannotMeasure`` where there is none, or answers were wrong."""
    found = next((line[6:] for line in said.splitlines() if line.startswith("found ")), None)
    if found is None:
        raise CannotMeasure(f"wrk: {said.strip()[-300:]}")
    facts = json.loads(found)
    if facts["status"] or facts["broken"] or not facts["requests"]:
        raise CannotMeasure(f"wrk: not all was answered well: {found}")
    return Load(facts["requests"], facts["microseconds"] / 1e6)
