"""``make peers``: other filters in the inbox regime, with the draws of ours, into PEERS.json.

    python -m tests.benchmarks.peers DIR [FILTER ...]

DIR holds trec07p-20k.tar.xz and trec07p-b.tar.xz. A filter or an archive that is missing is skipped visibly. Each
run replaces its former figures in the file at once: where it is ended early, what was measured stays. SpamAssassin
takes 80 ms of CPU a message, so it gets one seed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from nbstream.evaluation.streams import read_index
from tests.benchmarks.peers import bogofilter, rspamd, spamassassin
from tests.benchmarks.peers.figures import FIGURES, PeerRun, read_runs, write_runs
from tests.benchmarks.peers.inbox import Peer, run_inbox
from tests.benchmarks.plan import SEEDS, TAUGHT, TREC, TREC_B
from tests.benchmarks.speed.processes import CannotMeasure
from tests.corpora import unpack

STREAMS = (TREC, TREC_B)


@dataclass(frozen=True, slots=True)
class PeerKind:
    """How to run a filter in a folder of its own, what its version is, and how many seeds it gets."""

    run: Callable[[Path, bool], AbstractContextManager[Peer]]
    version: Callable[[], str]
    seeds: int = SEEDS


@contextmanager
def _bogofilter(folder: Path, autolearn: bool) -> Iterator[Peer]:
    yield bogofilter.Bogofilter(folder, autolearn=autolearn)


KINDS = {
    "bogofilter": PeerKind(_bogofilter, bogofilter.version),
    "rspamd": PeerKind(lambda folder, autolearn: rspamd.rspamd(folder, autolearn=autolearn), rspamd.version),
    "SpamAssassin": PeerKind(
        lambda folder, autolearn: spamassassin.spamassassin(folder, autolearn=autolearn), spamassassin.version, 1
    ),
}


def main() -> None:
    """Unpack the archives and measure."""
    parser = argparse.ArgumentParser(prog="peers")
    parser.add_argument("corpora", type=Path)
    parser.add_argument("filters", nargs="*", metavar="FILTER")
    options = parser.parse_args()
    if unknown := set(options.filters) - set(KINDS):
        parser.error(f"{', '.join(sorted(unknown))} is none of {', '.join(KINDS)}")
    with tempfile.TemporaryDirectory(prefix="nb") as temporary:
        folder = Path(temporary)
        folder.chmod(0o755)  # some peers do not stay root
        for stream in STREAMS:
            archive = options.corpora / f"{stream}.tar.xz"
            if not archive.is_file():
                skip(stream, f"{options.corpora} has no {archive.name}")
                continue
            unpack(archive, folder)
            for name in options.filters or KINDS:
                measure(name, stream, folder / stream / "index.tsv", folder)


def measure(name: str, stream: str, index: Path, folder: Path) -> None:
    """Make the runs of one filter over one stream, and write their figures."""
    kind, messages = KINDS[name], [(line.label, line.path) for line in read_index(index, None)]
    for autolearn in (False, True):
        for seed in range(kind.seeds):
            started = time.monotonic()
            try:
                own = Path(tempfile.mkdtemp(dir=folder))
                with kind.run(own, autolearn) as peer:
                    counts = run_inbox(peer, messages, TAUGHT[stream], seed)
                run = PeerRun(name, kind.version(), autolearn, stream, TAUGHT[stream], seed, counts)
            except CannotMeasure as error:
                skip(f"{name}, {stream}", str(error))
                return
            write_runs(FIGURES, replaced(read_runs(FIGURES), run))
            print(f"{time.monotonic() - started:.0f} s: {run}", file=sys.stderr)


def replaced(runs: Iterable[PeerRun], new: PeerRun) -> list[PeerRun]:
    """The runs, with the new one in the place of one of the same filter, stream and seed; sorted."""
    kept = [run for run in runs if _name(run) != _name(new)]
    return sorted([*kept, new], key=_name)


def _name(run: PeerRun) -> tuple[str, str, bool, int]:
    return run.stream, run.filter, run.autolearn, run.seed


def skip(what: str, why: str) -> None:
    """Say that something is not measured."""
    print(f"skipped: {what}: {why}", file=sys.stderr)


if __name__ == "__main__":
    main()
