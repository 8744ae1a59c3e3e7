"""The report on a run: its measures and its false-positive budget as JSON and as text, its scores as a table.

Rules: pure. For a budget, messages count from the first one for which it was guaranteed, even if the guarantee
was lost later; if it never was, all messages count.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, TextIO

from nbstream.evaluation import measures
from nbstream.numpy_on_demand import np
from nbstream.policy.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

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
class EvaluationReport:
    """The measures of a run: ``members`` under their names in JSON, None for what is undefined, and ``lines``."""

    members: dict[str, Any]
    lines: Sequence[str]


def build_report(
    result: EvaluationResult,
    options: EvaluationOptions,
    skip: int,
    limit: int | None,
    budget: float | None = None,
) -> EvaluationReport:
    """Return the report on ``result`` without its first ``skip`` messages.

    ``limit`` is only reported. ``budget`` is the rate of the budget that was to be kept, or None. All percentages
    and the numbers of messages are of the measured messages, the other members of the whole stream:
    docs/guides/evaluate-and-tune.md says what each of them is.
    """
    rows, labels = result.rows[skip:], result.labels
    columns = RowArrays.from_rows(rows)
    is_spam, spam = columns.is_spam, int(columns.is_spam.sum())
    outcome = None if budget is None else budget_outcome(result.rows, budget)
    members: dict[str, Any] = {
        "messages": len(rows),
        "spam": spam,
        "ham": len(rows) - spam,
        "learned": result.learned,
        "autolearned": result.autolearned,
        "first_verdict": result.first_verdict,
        "first_contacts": _first_contacts(columns),
        "corrections": labels.corrections,
        "contradictions": labels.contradictions,
        "believed_percent": labels.believed_percent,
        "believed_twice_percent": labels.believed_twice_percent,
        "one_minus_auc_percent": measures.one_minus_auc_percent(is_spam, columns.score),
        "hm_percent": measures.hm_percent(is_spam, columns.called_spam),
        "sm_percent": measures.sm_percent(is_spam, columns.called_spam),
        "lam_percent": measures.lam_percent(is_spam, columns.called_spam),
        "fn_at_fp_0_1_percent": measures.fn_at_fp_percent(is_spam, columns.score, 0.001),
        "fn_at_fp_0_5_percent": measures.fn_at_fp_percent(is_spam, columns.score, 0.005),
        "expected_calibration_error": measures.expected_calibration_error(is_spam, columns.probability),
        "seconds_per_message": result.seconds / len(result.rows) if result.rows else None,
        "tokens_per_message": result.tokens_per_message,
        "regime": options.regime,
        "seed": options.seed,
        "label_noise": options.label_noise,
        "taught": options.taught_messages,
        "skip": skip,
        "limit": limit,
        "threshold_path": threshold_path(result.rows),
        "budget": outcome and asdict(outcome),
        "other": compare_filters(rows, options.other_field) if options.other_field else None,
    }
    return EvaluationReport(members, list(_lines(members, outcome)))


def _lines(members: Mapping[str, Any], budget: BudgetOutcome | None) -> Iterator[str]:
    of_contradictions, seconds = f"% of {members['contradictions']}", members["seconds_per_message"]
    shown = [
        ("1 - area under the ROC curve", members["one_minus_auc_percent"], 4, "%"),
        ("ham called spam (hm)", members["hm_percent"], 2, "%"),
        ("spam missed (sm; unsure is a miss)", members["sm_percent"], 2, "%"),
        ("their logit average (lam)", members["lam_percent"], 2, "%"),
        ("spam missed at 0.1 % of the ham lost", members["fn_at_fp_0_1_percent"], 2, "%"),
        ("spam missed at 0.5 % of the ham lost", members["fn_at_fp_0_5_percent"], 2, "%"),
        ("expected calibration error", members["expected_calibration_error"], 4, ""),
        ("milliseconds a message", None if seconds is None else 1000 * seconds, 2, ""),
        ("tokens learned of a message", members["tokens_per_message"], 0, ""),
        ("corrections: labels of mail in the wrong folder", members["corrections"], 0, ""),
        ("contradictions believed at once", members["believed_percent"], 2, of_contradictions),
        ("contradictions believed when said twice", members["believed_twice_percent"], 2, of_contradictions),
        ("first message with a verdict", members["first_verdict"], 0, ""),
    ]
    if members["autolearned"]:
        shown.append(("learned without a label", members["autolearned"], 0, ""))
    width = max(len(name) for name, *_ in shown)
    counts = f"{members['messages']} measured: {members['spam']} spam, {members['ham']} ham"
    yield f"{counts}; {members['learned']} learned ({members['regime']})"
    for name, value, digits, unit in shown:
        yield f"{name:{width}} {_format_number(value, digits):>9} {unit}".rstrip()
    first = members["first_contacts"]
    yield (
        f"ham lost: {first['lost']} of the {first['ham']} that were the first of their sender domain, "
        f"{first['other_lost']} of the other {first['other_ham']}"
    )
    if budget:
        yield budget.to_text()
    if members["other"]:
        yield from describe_filters(members["other"])


def _first_contacts(rows: RowArrays) -> dict[str, int]:
    """Return the ham that is the first of its sender domain in the stream, beside all other ham; lost is spam."""
    lost, first = rows.called_spam & ~rows.is_spam, rows.is_first_contact
    ham, ham_lost = int(first.sum()), int((lost & first).sum())
    others, others_lost = int((~rows.is_spam).sum()) - ham, int(lost.sum()) - ham_lost
    return {"ham": ham, "lost": ham_lost, "other_ham": others, "other_lost": others_lost}


def compare_filters(rows: Sequence[EvaluationRow], field_name: str) -> dict[str, Any]:
    """Return the verdicts of this filter and of another one, named after its field, where both have judged."""
    judged = [row for row in rows if row.other_verdict is not None]
    is_spam = np.array([row.label == "spam" for row in judged], dtype=np.bool_)
    ours = _verdict_rates("nbstream", is_spam, [row.verdict for row in judged])
    theirs = _verdict_rates(field_name, is_spam, [row.other_verdict for row in judged])
    return {"messages": len(judged), "ours": ours, "theirs": theirs}


def _verdict_rates(name: str, is_spam: BoolArray, verdicts: Sequence[Verdict | None]) -> dict[str, Any]:
    """Return the ham that a filter calls spam, the spam that it misses, and what it is unsure of."""
    called_spam = np.array([verdict is not None and verdict.is_spam for verdict in verdicts], dtype=np.bool_)
    return {
        "filter": name,
        "hm_percent": measures.hm_percent(is_spam, called_spam),
        "sm_percent": measures.sm_percent(is_spam, called_spam),
        "unsure_percent": 100.0 * verdicts.count(Verdict.UNSURE) / len(verdicts) if verdicts else None,
    }


def describe_filters(other: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of a table of two filters."""
    both = (other["ours"], other["theirs"])
    width = max(len(rates["filter"]) for rates in both)
    yield f"{other['messages']} with a verdict in {other['theirs']['filter']}:"
    yield f"{'':{width}} {'hm':>9}   {'sm':>9}   {'unsure':>9}"
    for rates in both:
        shares = (rates["hm_percent"], rates["sm_percent"], rates["unsure_percent"])
        yield f"{rates['filter']:{width}} " + " ".join(f"{_format_number(share, 2):>9} %" for share in shares)


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


def _format_number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"
