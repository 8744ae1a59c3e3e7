"""Runs of ``nbstream evaluate``, and the result of each message in them.

Rules: a run is one command that anybody can repeat, with nothing but what its configuration says; each is made
once, and all measures come from its rows. All its figures but the seconds are the same each time.
"""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from nbstream.evaluation import measures
from nbstream.evaluation.report import RowArrays
from nbstream.evaluation.run import EvaluationRow
from nbstream.policy.verdict import Verdict

DEFAULTS = "{}"
OFF = "null"


@dataclass(frozen=True, slots=True)
class Run:
    """A stream by name, how its labels are learned, and three sections of the configuration, as YAML."""

    stream: str
    regime: str = "immediate"
    label_noise: float = 0.0
    seed: int = 0
    model: str = DEFAULTS
    limit: int | None = None
    autolearn: str = DEFAULTS
    verdict: str = DEFAULTS
    taught: int = 0

    @property
    def options(self) -> list[str]:
        """The options of ``nbstream evaluate``, as few as possible."""
        return self.options_without_seed + (["--seed", str(self.seed)] if self.is_drawn else [])

    @property
    def options_without_seed(self) -> list[str]:
        """The same options for all runs of a group."""
        words = ["--regime", self.regime] if self.regime != "immediate" else []
        words += ["--taught", str(self.taught)] if self.taught else []
        words += ["--label-noise", f"{self.label_noise:g}"] if self.label_noise else []
        return words + (["--limit", str(self.limit)] if self.limit else [])

    @property
    def is_drawn(self) -> bool:
        """Whether the seed has an effect."""
        return bool(self.label_noise) or self.regime.startswith(("inbox", "spam-only"))


@dataclass(frozen=True, slots=True)
class Measures:
    """The measures of some messages; None is undefined. Percentages, but for the last."""

    one_minus_auc: float | None
    fn_at_fp_0_1: float | None
    fn_at_fp_0_5: float | None
    hm: float | None
    sm: float | None
    lam: float | None
    calibration_error: float | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """The rows in the order of the stream, and the cost of the run; ``learned`` labels changed the model."""

    rows: tuple[EvaluationRow, ...]
    learned: int
    tokens_per_message: float | None
    seconds_per_message: float
    budget: Mapping[str, float | None] | None = None
    """The outcome of the budget as in the report, if the run had one."""
    corrections: int = 0
    contradictions: int = 0
    believed: float | None = None
    """The percentage of the contradictions; see the report of ``nbstream evaluate``."""
    believed_twice: float | None = None
    """The percentage of the contradictions if they are said twice."""
    first_verdict: int | None = None
    """The first message before which enough was learned for a verdict."""

    @property
    def disbelieved(self) -> float | None:
        """The percentage of the contradictions that were not believed; None where there was none."""
        return None if self.believed is None else 100.0 - self.believed

    @property
    def disbelieved_twice(self) -> float | None:
        """The percentage of the contradictions that are not believed even if they are said twice."""
        return None if self.believed_twice is None else 100.0 - self.believed_twice

    def measures(self, first: int = 1, last: int | None = None) -> Measures:
        """The measures of the messages from the ``first`` to the ``last``, counted from 1."""
        columns = RowArrays.from_rows(self.rows[first - 1 : last])
        is_spam, score, called_spam = columns.is_spam, columns.score, columns.called_spam
        return Measures(
            one_minus_auc=measures.one_minus_auc_percent(is_spam, score),
            fn_at_fp_0_1=measures.fn_at_fp_percent(is_spam, score, 0.001),
            fn_at_fp_0_5=measures.fn_at_fp_percent(is_spam, score, 0.005),
            hm=measures.hm_percent(is_spam, called_spam),
            sm=measures.sm_percent(is_spam, called_spam),
            lam=measures.lam_percent(is_spam, called_spam),
            calibration_error=measures.expected_calibration_error(is_spam, columns.probability),
        )


def make_all(runs: Sequence[Run], streams: Mapping[str, Path]) -> dict[Run, Outcome]:
    """The outcomes of ``runs`` over the indexes of ``streams``, as many at a time as there are cores.

    Raises ``RuntimeError`` with what the command said where one fails.
    """
    outcomes = {}
    started = time.monotonic()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for run, outcome in zip(runs, pool.map(lambda run: make(run, streams[run.stream]), runs), strict=True):
            outcomes[run] = outcome
            sections = (part for part in (run.model, run.verdict) if part != DEFAULTS)
            words = [run.stream, *run.options, *sections, *(["no autolearn"] if run.autolearn == OFF else [])]
            passed = f"{len(outcomes)} of {len(runs)}, {time.monotonic() - started:.0f} s"
            print(f"{passed}: {' '.join(words)}", file=sys.stderr)
    return outcomes


def make(run: Run, index: Path) -> Outcome:
    """The outcome of one run. Raises ``RuntimeError`` with what the command said where it fails."""
    with tempfile.TemporaryDirectory() as name:
        config, scores = (Path(name) / file for file in ("nbstream.yaml", "scores.tsv"))
        config.write_text(f"model: {run.model}\nautolearn: {run.autolearn}\nverdict: {run.verdict}\n")
        words = ["evaluate", "-c", config, index, *run.options, "--json", "--scores", scores]
        command = [sys.executable, "-m", "nbstream.cli", *map(str, words)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{run}: {done.stderr}")
        report = json.loads(done.stdout)
        return Outcome(
            _rows(scores),
            report["learned"],
            report["tokens_per_message"],
            report["seconds_per_message"],
            report["budget"],
            report["corrections"],
            report["contradictions"],
            report["believed_percent"],
            report["believed_twice_percent"],
            report["first_verdict"],
        )


def _rows(scores: Path) -> tuple[EvaluationRow, ...]:
    with scores.open(newline="") as file:
        return tuple(
            EvaluationRow(row["label"], float(row["score"]), float(row["probability"]), Verdict(row["verdict"]))
            for row in csv.DictReader(file, delimiter="\t")
        )
