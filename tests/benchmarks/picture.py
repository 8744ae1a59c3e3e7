"""``make picture``: draw the plot of ``nbstream tune`` for real mail into docs/tune.svg.

    python -m tests.benchmarks.picture DIR

DIR holds spamassassin.tar.xz. The scores are those of ``nbstream evaluate``, each given before its label was
learned, as a daemon keeps them; nothing else of the mail is in the picture.
"""

from __future__ import annotations

import csv
import sys
import tempfile
from pathlib import Path

from nbstream.cli.main import main as nbstream
from nbstream.evaluation import threshold_choices, threshold_report
from nbstream.evaluation.plots import write_tuning_plot
from nbstream.policy.thresholds import FalsePositiveBudget, ThresholdPolicy
from tests.corpora import unpack
from tests.evaluation.scored import prequential_scores

PICTURE = Path(__file__).parents[2] / "docs" / "tune.svg"

ARCHIVE, INDEX = "spamassassin.tar.xz", Path("spamassassin", "index_2002h2.tsv")
PRESENT = ThresholdPolicy(0.5, 0.95)
STRICT = ThresholdPolicy(0.5, FalsePositiveBudget(0.005))


def main() -> None:
    """Unpack the archive, score its mail, draw."""
    if len(sys.argv) != 2:
        sys.exit("usage: python -m tests.benchmarks.picture DIR")
    archive = Path(sys.argv[1]) / ARCHIVE
    if not archive.is_file():
        sys.exit(f"picture: {archive.parent} has no {ARCHIVE}")
    with tempfile.TemporaryDirectory() as folder:
        make(unpack(archive, Path(folder)) / INDEX, PICTURE)


def make(index: Path, to: Path) -> None:
    """Score the mail of an index, draw what thresholds would have done to it, and print it."""
    with tempfile.TemporaryDirectory() as folder:
        defaults, scores = Path(folder) / "nbstream.yaml", Path(folder) / "scores.tsv"
        defaults.write_text("")
        if nbstream(["evaluate", "-c", str(defaults), str(index), "--scores", str(scores)]):
            sys.exit("picture: no scores")
        with scores.open(encoding="utf-8", newline="") as file:
            rows = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
            pairs = [(row["label"], float(row["probability"])) for row in rows]
    result = threshold_choices.compare_thresholds(
        prequential_scores(pairs), PRESENT, [("with strict.yaml", STRICT)]
    )
    write_tuning_plot(to, result)
    print(threshold_report.render_text(result, "default", width=None, bold=False))


if __name__ == "__main__":
    main()
