"""What the other filters did in the inbox regime: PEERS.json, which the page of the accuracy shows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.benchmarks.peers.inbox import InboxCounts

FIGURES = Path(__file__).parents[1] / "PEERS.json"


@dataclass(frozen=True, slots=True)
class PeerRun:
    """One run of another filter: ``autolearn`` says whether it learned without people too."""

    filter: str
    version: str
    autolearn: bool
    stream: str
    taught: int
    seed: int
    counts: InboxCounts

    @property
    def hm(self) -> float:
        """Ham in Junk, in percent."""
        return 100.0 * self.counts.ham_in_junk / self.counts.ham

    @property
    def sm(self) -> float:
        """Spam in the inbox, in percent."""
        return 100.0 * self.counts.spam_in_inbox / self.counts.spam


def read_runs(path: Path) -> list[PeerRun]:
    """Return the runs of a file; none where there is no file."""
    members: list[dict[str, Any]] = json.loads(path.read_text()) if path.exists() else []
    return [PeerRun(**{**run, "counts": InboxCounts(**run["counts"])}) for run in members]


def write_runs(path: Path, runs: Sequence[PeerRun]) -> None:
    """Write the runs in their order."""
    path.write_text(json.dumps([asdict(run) for run in runs], indent=1) + "\n", encoding="utf-8")
