"""One part of the benchmarks, in a process of its own: ``__main__`` runs ``tests.benchmarks.speed.part``."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from pathlib import Path

from tests.benchmarks.speed.bench import LARGE, Bench, Scale
from tests.benchmarks.speed.figures import Report


def main() -> None:
    """Measure and save the report; the arguments are ``name index folder shared saved tree [large]``."""
    name = sys.argv[1]
    index, folder, shared, saved, tree = map(Path, sys.argv[2:7])
    scale = LARGE if sys.argv[7:] == ["large"] else Scale()
    # nbstream comes from that tree, the benchmarks from this one. The part is imported late, because another tree
    # may lack what it imports.
    sys.path.insert(0, str(tree))
    os.environ["PYTHONPATH"] = str(tree)  # for the daemon and the commands
    bench = Bench(name, index, folder, shared, Report({}), saved, scale)
    try:
        importlib.import_module(f"tests.benchmarks.speed.{name}").run(bench)
    except Exception as error:  # noqa: BLE001 - one part that fails does not end the others
        traceback.print_exc()
        bench.skip("the rest", f"failed: {type(error).__name__}: {error}"[:300])
    bench.save()


if __name__ == "__main__":
    main()
