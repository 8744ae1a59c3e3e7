"""``python -m tests.benchmarks.other_filters INDEX ...`` prints two tables of each stream.

The rule, which was written down before the first run, is in docs/experiments.md, "Knowledge of other filters". The
real bogofilter and sa-learn are taught; one that is missing is skipped visibly.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from nbstream.evaluation.streams import read_index
from tests.benchmarks.other_filters import exports, imports
from tests.benchmarks.speed.processes import CannotMeasure

TAUGHT, MEASURED = 5000, 1000


async def measure(index: Path) -> None:
    """Print the tables of one stream."""
    lines = read_index(index, TAUGHT + MEASURED)
    taught, following = lines[:TAUGHT], lines[TAUGHT:]
    spam = sum(line.label == "spam" for line in following)
    print(f"\n## {index.parent.name}\n\n{len(following)} messages, {spam} of them spam.\n")
    print("| known before | every label | errors only |\n|---|---|---|")
    async for row in imports.rows(taught, following):
        print(row, flush=True)
    print("\n| the other filter | learns nothing more |\n|---|---|")
    try:
        for row in exports.rows(taught, following):
            print(row, flush=True)
    except CannotMeasure as error:
        print(f"skipped: {error}", file=sys.stderr)


def main(indexes: list[str]) -> None:
    """Print the tables."""
    print("(1-AUC)% / sm% at hm 0.1 % / ham lost / spam missed at the defaults")
    for index in indexes:
        asyncio.run(measure(Path(index)))


if __name__ == "__main__":
    main(sys.argv[1:])
