"""The report on a run: its measures as JSON and as text, and its scores as a table."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, TextIO

import numpy as np

from nbstream.evaluation import measures
from nbstream.evaluation.budget_outcome import BudgetOutcome, budget_outcome, threshold_path

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nbstream.evaluation.measures import BoolArray, FloatArray
    from nbstream.evaluation.run import EvaluationOptions, EvaluationResult, EvaluationRow, LessonCountingStore


@dataclass(frozen=True, slots=True)
class RowArrays:
    """The rows of a run as arrays, one value for each message."""

    is_spam: BoolArray
    score: FloatArray
    probability: FloatArray
    called_spam: BoolArray

    @classmethod
    def from_rows(cls, rows: Sequence[EvaluationRow]) -> RowArrays:
        """Return the arrays of ``rows``."""
        return cls(
            np.array([row.label == "spam" for row in rows], dtype=np.bool_),
            np.array([row.score for row in rows], dtype=np.float64),
            np.array([row.probability for row in rows], dtype=np.float64),
            np.array([row.verdict.is_spam for row in rows], dtype=np.bool_),
        )


@dataclass(frozen=True, slots=True)
class EvaluationReport:
    """The measures, under their names in JSON; None is undefined.

    ``messages``, ``spam``, ``ham`` and all percentages are of the measured messages, the others of the whole
    stream. ``learned`` is the number of labels that changed the model, ``autolearned`` that of messages learned
    without a label. Of the labels that were given after the first ``taught`` messages, ``corrections`` were of
    messages in the wrong folder: ham called spam, or spam called anything else. ``contradictions`` of them were on
    the other side of ``unsure`` than the check, and after ``believed_percent`` of these the message was on the
    label's side, or would be if the label were insisted on (``believed_twice_percent``). ``threshold_path`` has
    the thresholds at every thousandth message, ``budget`` the outcome of the budget for spam, or None if there was
    no budget.
    """

    messages: int
    spam: int
    ham: int
    learned: int
    autolearned: int
    corrections: int
    contradictions: int
    believed_percent: float | None
    believed_twice_percent: float | None
    one_minus_auc_percent: float | None
    hm_percent: float | None
    sm_percent: float | None
    lam_percent: float | None
    fn_at_fp_0_1_percent: float | None
    fn_at_fp_0_5_percent: float | None
    expected_calibration_error: float | None
    seconds_per_message: float | None
    tokens_per_message: float | None
    regime: str
    seed: int
    label_noise: float
    taught: int
    skip: int
    limit: int | None
    threshold_path: list[dict[str, float | int | None]]
    budget: BudgetOutcome | None

    def to_json(self) -> str:
        """Return the report as one JSON object on one line."""
        return json.dumps(asdict(self), allow_nan=False)

    def to_text(self) -> str:
        """Return the report as a few lines of text."""
        of_contradictions = f"% of {self.contradictions}"
        measures_to_show = [
            ("1 - area under the ROC curve", self.one_minus_auc_percent, 4, "%"),
            ("ham called spam (hm)", self.hm_percent, 2, "%"),
            ("spam missed (sm; unsure is a miss)", self.sm_percent, 2, "%"),
            ("their logit average (lam)", self.lam_percent, 2, "%"),
            ("spam missed at 0.1 % of the ham lost", self.fn_at_fp_0_1_percent, 2, "%"),
            ("spam missed at 0.5 % of the ham lost", self.fn_at_fp_0_5_percent, 2, "%"),
            ("expected calibration error", self.expected_calibration_error, 4, ""),
            ("milliseconds a message", _multiply(self.seconds_per_message, 1000), 2, ""),
            ("tokens learned of a message", self.tokens_per_message, 0, ""),
            ("corrections: labels of mail in the wrong folder", self.corrections, 0, ""),
            ("contradictions believed at once", self.believed_percent, 2, of_contradictions),
            ("contradictions believed when said twice", self.believed_twice_percent, 2, of_contradictions),
        ]
        if self.autolearned:
            measures_to_show.append(("learned without a label", self.autolearned, 0, ""))
        width = max(len(name) for name, *_ in measures_to_show)
        heading = f"{self.messages} measured: {self.spam} spam, {self.ham} ham; {self.learned} learned"
        lines = [
            f"{name:{width}} {_format_number(value, digits):>9} {unit}".rstrip()
            for name, value, digits, unit in measures_to_show
        ]
        budget = [self.budget.to_text()] if self.budget else []
        return "\n".join([f"{heading} ({self.regime})", *lines, *budget])


def build_report(
    result: EvaluationResult,
    lesson_store: LessonCountingStore,
    options: EvaluationOptions,
    skip: int,
    limit: int | None,
    budget: float | None = None,
) -> EvaluationReport:
    """Return the report on ``result`` without its first ``skip`` messages.

    ``limit`` is only reported. ``budget`` is the rate of the budget that was to be kept, or None.
    """
    columns = RowArrays.from_rows(result.rows[skip:])
    spam = int(columns.is_spam.sum())
    return EvaluationReport(
        messages=len(columns.is_spam),
        spam=spam,
        ham=len(columns.is_spam) - spam,
        learned=lesson_store.learned,
        autolearned=result.autolearned,
        corrections=result.labels.corrections,
        contradictions=result.labels.contradictions,
        believed_percent=result.labels.believed_percent,
        believed_twice_percent=result.labels.believed_twice_percent,
        one_minus_auc_percent=measures.one_minus_auc_percent(columns.is_spam, columns.score),
        hm_percent=measures.hm_percent(columns.is_spam, columns.called_spam),
        sm_percent=measures.sm_percent(columns.is_spam, columns.called_spam),
        lam_percent=measures.lam_percent(columns.is_spam, columns.called_spam),
        fn_at_fp_0_1_percent=measures.fn_at_fp_percent(columns.is_spam, columns.score, 0.001),
        fn_at_fp_0_5_percent=measures.fn_at_fp_percent(columns.is_spam, columns.score, 0.005),
        expected_calibration_error=measures.expected_calibration_error(columns.is_spam, columns.probability),
        seconds_per_message=result.seconds / len(result.rows) if result.rows else None,
        tokens_per_message=lesson_store.tokens_per_message,
        regime=options.regime,
        seed=options.seed,
        label_noise=options.label_noise,
        taught=options.taught_messages,
        skip=skip,
        limit=limit,
        threshold_path=threshold_path(result.rows),
        budget=None if budget is None else budget_outcome(result.rows, budget),
    )


def write_scores(file: TextIO, rows: Sequence[EvaluationRow]) -> None:
    """Write all rows as tab-separated values under a line of names; ``index`` counts from 1.

    The index is that of the stream, like a line of an index file. Numbers are written in full, so that a reader
    gets the same ones.
    """
    file.write("index\tlabel\tscore\tprobability\tverdict\n")
    for index, row in enumerate(rows, start=1):
        file.write(f"{index}\t{row.label}\t{row.score!r}\t{row.probability!r}\t{row.verdict}\n")


def _multiply(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _format_number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"
