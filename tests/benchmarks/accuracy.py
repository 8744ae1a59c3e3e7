"""``make accuracy``: measure the filter on real mail, and write ACCURACY.md.

    python -m tests.benchmarks.accuracy DIR

DIR holds trec07p-20k.tar.xz, spamassassin.tar.xz and sms/spam_train.tsv.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tests.benchmarks.page import page
from tests.benchmarks.plan import IN_TIME, RUNS, SHUFFLED, SMS, TREC
from tests.benchmarks.runs import make_all
from tests.corpora import unpack

PAGE = Path(__file__).with_name("ACCURACY.md")

ARCHIVES = ("trec07p-20k.tar.xz", "spamassassin.tar.xz")
TEXTS = "sms/spam_train.tsv"


def main() -> None:
    """Unpack the archives, make all runs, write the page."""
    if len(sys.argv) != 2:
        sys.exit("usage: python -m tests.benchmarks.accuracy DIR")
    corpora = Path(sys.argv[1])
    absent = [name for name in (*ARCHIVES, TEXTS) if not (corpora / name).is_file()]
    if absent:
        sys.exit(f"accuracy: {corpora} has no {', '.join(absent)}")
    with tempfile.TemporaryDirectory() as folder:
        write(unpacked(corpora, Path(folder)), PAGE)


def unpacked(corpora: Path, folder: Path) -> dict[str, Path]:
    """The index of each stream, in ``folder``."""
    for name in ARCHIVES:
        unpack(corpora / name, folder)
    return {
        TREC: folder / "trec07p-20k" / "index.tsv",
        IN_TIME: folder / "spamassassin" / "index_2002h2.tsv",
        SHUFFLED: folder / "spamassassin" / "index_shuffled.tsv",
        SMS: corpora / TEXTS,
    }


def write(streams: Mapping[str, Path], to: Path) -> None:
    """Make all runs over the streams' indexes, and write their page."""
    outcomes = make_all(RUNS, streams)
    to.write_text(page(outcomes), encoding="utf-8")


if __name__ == "__main__":
    main()
