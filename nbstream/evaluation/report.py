"""The report on a run: its measures and its false-positive budget as JSON and as text, its scores as a table.

Rules: pure. For a budget, messages count from the first one for which it was guaranteed, even if the guarantee
was lost later; if it never was, all messages count.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

import numpy as np

from nbstream.evaluation import measures
from nbstream.policy.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nbstream.evaluation.measures import BoolArray, FloatArray
    from nbstream.evaluation.run import EvaluationOptions, EvaluationResult, EvaluationRow


_PATH_STEP = 1000


@dataclass(frozen=True, slots=True)
class RowArrays:
    """The rows of a run as arrays, one value for each message."""

    is_spam: BoolArray
    score: FloatArray
    probability: FloatArray
    called_spam: BoolArray
    is_first_contact: BoolArray

    @classmethod
    def from_rows(cls, rows: Sequence[EvaluationRow]) -> RowArrays:
        """Return the arrays of ``rows``."""
        return cls(
            np.array([row.label == "spam" for row in rows], dtype=np.bool_),
            np.array([row.score for row in rows], dtype=np.float64),
            np.array([row.probability for row in rows], dtype=np.float64),
            np.array([row.verdict.is_spam for row in rows], dtype=np.bool_),
            np.array([row.is_first_contact for row in rows], dtype=np.bool_),
        )


@dataclass(frozen=True, slots=True)
class BudgetOutcome:
    """The budget and its outcome; all shares are from 0 to 1.

    ``asked`` is the budget, the largest share of ham that may be called spam. ``since`` is the number of the first
    message with a guarantee, counted from 1; if it is None, there was none, no judgement is given, and the
    counts are of the whole run. ``ham`` is the number of ham from there on, ``ham_lost`` the number of them that
    were called spam, and ``realised`` their share. ``p_value`` is the probability of ``ham_lost`` or more if the
    true rate were exactly the budget: below 0.05 the budget was overdrawn. ``spam_missed`` is a share of the spam,
    to be compared with ``spam_missed_best``, that of the lowest fixed threshold that would have kept the budget,
    which is known only afterwards.
    """

    asked: float
    since: int | None
    ham: int
    ham_lost: int
    realised: float | None
    p_value: float | None
    spam_missed: float | None
    spam_missed_best: float | None

    def to_text(self) -> str:
        """Return the outcome as one line of text."""
        budget = f"budget of {100 * self.asked:g} % of the ham"
        if self.since is None or self.realised is None:
            lost = "" if self.realised is None else f"; {self.ham_lost} of {self.ham} were lost all the same"
            return f"{budget}: was never guaranteed{lost}"
        missed = "" if self.spam_missed is None else f"; spam missed {100 * self.spam_missed:.2f} %"
        best = (
            "" if self.spam_missed_best is None else f" (best fixed threshold {100 * self.spam_missed_best:.2f} %)"
        )
        lost = f"lost {self.ham_lost} of {self.ham} ham, {100 * self.realised:.3f} %"
        return f"{budget}: guaranteed from message {self.since} on, {lost} (p {self.p_value:.2f}){missed}{best}"


@dataclass(frozen=True, slots=True)
class FirstContacts:
    """The ham that is the first of its sender domain in the stream, beside all other ham.

    ``lost`` are those of them that were called spam.
    """

    ham: int
    lost: int
    other_ham: int
    other_lost: int

    @classmethod
    def from_arrays(cls, rows: RowArrays) -> FirstContacts:
        """Return the counts of these rows."""
        lost, first = rows.called_spam & ~rows.is_spam, rows.is_first_contact
        ham, ham_lost = int(first.sum()), int((lost & first).sum())
        return cls(ham, ham_lost, int((~rows.is_spam).sum()) - ham, int(lost.sum()) - ham_lost)

    def to_text(self) -> str:
        """Return the counts as one line of text."""
        return (
            f"ham lost: {self.lost} of the {self.ham} that were the first of their sender domain, "
            f"{self.other_lost} of the other {self.other_ham}"
        )


@dataclass(frozen=True, slots=True)
class VerdictRates:
    """The verdicts of one filter: the ham it calls spam, the spam it misses, and what it is unsure of."""

    filter: str
    hm_percent: float | None
    sm_percent: float | None
    unsure_percent: float | None

    @classmethod
    def of(cls, filter_name: str, is_spam: BoolArray, verdicts: Sequence[Verdict | None]) -> VerdictRates:
        """Return the rates of ``verdicts``, one for each message."""
        called_spam = np.array([verdict is not None and verdict.is_spam for verdict in verdicts], dtype=np.bool_)
        unsure = 100.0 * verdicts.count(Verdict.UNSURE) / len(verdicts) if verdicts else None
        hm = measures.hm_percent(is_spam, called_spam)
        return cls(filter_name, hm, measures.sm_percent(is_spam, called_spam), unsure)


@dataclass(frozen=True, slots=True)
class OtherFilterReport:
    """This filter and another one, named after its field, on the ``messages`` that both have judged."""

    messages: int
    ours: VerdictRates
    theirs: VerdictRates

    @classmethod
    def from_rows(cls, rows: Sequence[EvaluationRow], field_name: str) -> OtherFilterReport:
        """Return the report on those of ``rows`` that have a verdict of the other filter."""
        judged = [row for row in rows if row.other_verdict is not None]
        is_spam = np.array([row.label == "spam" for row in judged], dtype=np.bool_)
        ours = VerdictRates.of("nbstream", is_spam, [row.verdict for row in judged])
        return cls(len(judged), ours, VerdictRates.of(field_name, is_spam, [row.other_verdict for row in judged]))

    def to_text(self) -> str:
        """Return the report as a table."""
        both = (self.ours, self.theirs)
        width = max(len(rates.filter) for rates in both)
        lines = [f"{self.messages} with a verdict in {self.theirs.filter}:"]
        lines.append(f"{'':{width}} {'hm':>9}   {'sm':>9}   {'unsure':>9}")
        for rates in both:
            shares = (rates.hm_percent, rates.sm_percent, rates.unsure_percent)
            lines.append(
                f"{rates.filter:{width}} " + " ".join(f"{_format_number(share, 2):>9} %" for share in shares)
            )
        return "\n".join(lines)


@dataclass(frozen=True, kw_only=True, slots=True)
class EvaluationReport:
    """The measures, under their names in JSON; None is undefined.

    ``messages``, ``spam``, ``ham`` and all percentages are of the measured messages, the others of the whole
    stream. ``learned`` is the number of labels that changed the model, ``autolearned`` that of messages learned
    without a label. Of the labels that were given after the first ``taught`` messages, ``corrections`` were of
    messages in the wrong folder: ham called spam, or spam called anything else. ``contradictions`` of them were on
    the other side of ``unsure`` than the check, and after ``believed_percent`` of these the message was on the
    label's side, or would be if the label were reinforced (``believed_twice_percent``). ``first_verdict`` is the
    number of the first message for which the model had learned enough. ``first_contacts`` are of the measured
    messages. ``threshold_path`` has the thresholds at every thousandth message, ``budget`` the outcome of the
    budget for spam, or None if there was no budget. ``other`` compares the measured messages with the verdicts of
    another filter, or is None.
    """

    messages: int
    spam: int
    ham: int
    learned: int
    autolearned: int
    first_verdict: int | None
    first_contacts: FirstContacts
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
    other: OtherFilterReport | None

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
            ("first message with a verdict", self.first_verdict, 0, ""),
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
        other = [self.other.to_text()] if self.other else []
        return "\n".join([f"{heading} ({self.regime})", *lines, self.first_contacts.to_text(), *budget, *other])


def build_report(
    result: EvaluationResult,
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
        learned=result.learned,
        autolearned=result.autolearned,
        first_verdict=result.first_verdict,
        first_contacts=FirstContacts.from_arrays(columns),
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
        tokens_per_message=result.tokens_per_message,
        regime=options.regime,
        seed=options.seed,
        label_noise=options.label_noise,
        taught=options.taught_messages,
        skip=skip,
        limit=limit,
        threshold_path=threshold_path(result.rows),
        budget=None if budget is None else budget_outcome(result.rows, budget),
        other=OtherFilterReport.from_rows(result.rows[skip:], options.other_field)
        if options.other_field
        else None,
    )


def budget_outcome(rows: Sequence[EvaluationRow], rate: float) -> BudgetOutcome:
    """Return how the verdicts of ``rows`` kept a budget of ``rate``."""
    since = next((index for index, row in enumerate(rows) if row.thresholds.guaranteed), None)
    counted_rows = rows[since or 0 :]
    is_spam = np.array([row.label == "spam" for row in counted_rows], dtype=np.bool_)
    called_spam = np.array([row.verdict.is_spam for row in counted_rows], dtype=np.bool_)
    probability = np.array([row.probability for row in counted_rows], dtype=np.float64)
    ham, ham_lost = int((~is_spam).sum()), int((called_spam & ~is_spam).sum())
    return BudgetOutcome(
        asked=rate,
        since=None if since is None else since + 1,
        ham=ham,
        ham_lost=ham_lost,
        realised=ham_lost / ham if ham else None,
        p_value=measures.overdrawn_p_value(ham, rate, ham_lost) if ham and since is not None else None,
        spam_missed=float((~called_spam[is_spam]).mean()) if is_spam.any() else None,
        spam_missed_best=None
        if since is None
        else _best_spam_missed(probability[~is_spam], probability[is_spam], rate),
    )


def threshold_path(rows: Sequence[EvaluationRow]) -> list[dict[str, float | int | None]]:
    """Return the thresholds of every thousandth message; None is a threshold out of reach, or not set."""
    return [
        {
            "message": number,
            "unsure": measures.finite_or_none(rows[number - 1].thresholds.unsure),
            "spam": measures.finite_or_none(rows[number - 1].thresholds.spam),
            "reject": measures.finite_or_none(rows[number - 1].thresholds.reject),
        }
        for number in range(_PATH_STEP, len(rows) + 1, _PATH_STEP)
    ]


def _best_spam_missed(ham: FloatArray, spam: FloatArray, rate: float) -> float | None:
    if not len(ham) or not len(spam):
        return None
    max_ham_lost = math.floor(rate * len(ham) + 1e-9)
    return float((spam <= np.sort(ham)[-1 - max_ham_lost]).mean()) if max_ham_lost < len(ham) else 0.0


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
