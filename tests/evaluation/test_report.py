"""The report: its names, undefined values, and numbers that come back exactly."""

from __future__ import annotations

import csv
import io
import json
import math
from dataclasses import replace

from nbstream.evaluation.report import build_report, write_scores
from nbstream.evaluation.run import EvaluationOptions, EvaluationResult, EvaluationRow
from nbstream.policy.verdict import Verdict

ROWS = (
    EvaluationRow("spam", 0.0, 0.5, Verdict.UNSURE),
    EvaluationRow("ham", -0.1, 0.49, Verdict.HAM),
    EvaluationRow("ham", 9.5, 0.96, Verdict.SPAM),
    EvaluationRow("spam", 9.0, 0.95, Verdict.SPAM),
    EvaluationRow("spam", 30.0, 1 / 3 + 0.66, Verdict.REJECT),
    EvaluationRow("ham", -30.0, 1e-17, Verdict.HAM),
)


def report_members(rows: tuple[EvaluationRow, ...], skip: int = 0) -> dict[str, object]:
    return dict(
        json.loads(json.dumps(build_report(EvaluationResult(rows, 0.25), EvaluationOptions(), skip, None).members))
    )


def test_the_json_has_these_fields_and_no_others() -> None:
    names = (
        "messages spam ham learned autolearned corrections contradictions believed_percent believed_twice_percent "
        "first_verdict first_contacts one_minus_auc_percent hm_percent sm_percent lam_percent "
        "fn_at_fp_0_1_percent fn_at_fp_0_5_percent expected_calibration_error seconds_per_message "
        "regime seed label_noise taught skip limit tokens_per_message threshold_path budget other"
    )
    assert set(report_members(ROWS)) == set(names.split())


def test_errors_follow_from_the_verdict_and_an_unsure_spam_is_missed() -> None:
    members = report_members(ROWS)

    assert (members["messages"], members["spam"], members["ham"]) == (6, 3, 3)
    assert (members["hm_percent"], members["sm_percent"]) == (100 / 3, 100 / 3)
    # Of nine pairs the ham at 9.5 is above two spam.
    assert members["one_minus_auc_percent"] == 100 * 2 / 9
    assert members["fn_at_fp_0_1_percent"] == 100 * 2 / 3
    assert members["seconds_per_message"] == 0.25 / 6


def test_ham_of_a_new_sender_domain_is_counted_beside_all_other_ham() -> None:
    lost, kept = ROWS[2], ROWS[1]
    rows = (*[replace(row, is_first_contact=True) for row in (lost, lost, kept)], kept, lost, kept, kept, ROWS[0])

    report = build_report(EvaluationResult(rows, 0.25), EvaluationOptions(), 1, None)

    assert report.members["first_contacts"] == {"ham": 2, "lost": 1, "other_ham": 4, "other_lost": 1}
    line = "ham lost: 1 of the 2 that were the first of their sender domain, 1 of the other 4"
    assert line in report.lines


def test_scores_come_back_from_their_table_as_they_were() -> None:
    file = io.StringIO()

    write_scores(file, ROWS)

    file.seek(0)
    table = list(csv.DictReader(file, delimiter="\t"))
    assert [int(line["index"]) for line in table] == [1, 2, 3, 4, 5, 6]
    assert [
        EvaluationRow(line["label"], float(line["score"]), float(line["probability"]), Verdict(line["verdict"]))
        for line in table
    ] == list(ROWS)
    assert not any(math.isnan(float(line["score"])) for line in table)
