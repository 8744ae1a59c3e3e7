"""``make accuracy`` works: over letters written for tests it makes every run and writes the whole page."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from pathlib import Path

import pytest

from nbstream.evaluation.run import EvaluationRow
from nbstream.policy.verdict import Verdict
from tests.benchmarks import accuracy
from tests.benchmarks.plan import (
    BOTH,
    CORRECTED,
    PEERS,
    RUNS,
    SMS,
    STREAMS,
    TREC,
)
from tests.benchmarks.runs import Outcome, Run, make
from tests.harness.samples import samples, write_corpus

BUDGET = {
    "asked": 0.001,
    "since": 1000,
    "ham": 4000,
    "ham_lost": 3,
    "realised": 0.00075,
    "p_value": 0.76,
    "spam_missed": 0.02,
    "spam_missed_best": 0.005,
}


def outcome(wrong: int = 0, score: float = 9.0) -> Outcome:
    """2,000 messages in the right order but for ``wrong`` spam that scored lowest and was called ham."""
    ham = EvaluationRow("ham", -score, 0.0, Verdict.HAM)
    spam, missed = (
        EvaluationRow("spam", score, 1.0, Verdict.SPAM),
        EvaluationRow("spam", -2 * score, 0.0, Verdict.HAM),
    )
    rows = (*[ham, spam] * (1000 - wrong), *[ham, missed] * wrong)
    return Outcome(rows, learned=2000, tokens_per_message=250.4, seconds_per_message=0.002, budget=BUDGET)


def cells(text: str, *words: str) -> Sequence[str]:
    """The one line of a table with these words in it."""
    (line,) = (line for line in text.splitlines() if line.startswith("|") and all(word in line for word in words))
    return [cell.strip() for cell in line.strip("|").split("|")]


@pytest.mark.soak  # it makes all runs, each in a process of its own, as `make accuracy` does
@pytest.mark.timeout(600)
def test_all_runs_are_made_and_the_page_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    index = write_corpus(tmp_path / "corpus", 30)
    texts = tmp_path / "sms.tsv"
    texts.write_text("".join(f"{label}\t{raw.decode().split()[-1]} text\n" for label, raw in samples(30)))

    accuracy.write(
        {**dict.fromkeys((*STREAMS, BOTH, *CORRECTED.values()), index), SMS: texts}, tmp_path / "ACCURACY.md"
    )

    written = (tmp_path / "ACCURACY.md").read_text()
    assert cells(written, f"{TREC} `--label-noise 0.02`, seeds 0 to 4", "(1-AUC)%")[3] == "0.0060"
    assert all(name in written for name in (*PEERS, *STREAMS, platform.python_version()))
    assert all(f"\n## {title}\n" in written for title in ("Targets", "The regime of real life", "Contradictions"))
    assert f"{len(RUNS)} of {len(RUNS)}, " in capsys.readouterr().err


def test_a_run_has_a_row_for_each_message_and_its_figures_are_the_same_each_time(tmp_path: Path) -> None:
    index = write_corpus(tmp_path / "corpus", 60)
    run = Run(TREC, label_noise=0.2, seed=1, model="{min_learned: 3}", verdict="{spam: 0.95}", limit=50)

    once, again = make(run, index), make(run, index)

    assert [row.label for row in once.rows] == [label for label, _ in samples(50)]
    assert once.learned == 50
    assert once.rows == again.rows
    assert {row.verdict for row in once.rows} == {Verdict.HAM, Verdict.UNSURE, Verdict.SPAM}


def test_corrected_labels_are_a_stream_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = write_corpus(tmp_path / "trec07p-b", 3)
    index.write_text("ham\tdata/000041.eml\nham\tdata/000042.eml\nspam\tdata/000410.eml\n")
    corrections = tmp_path / "corrected-labels.tsv"
    monkeypatch.setattr(accuracy, "CORRECTED_LABELS", corrections)
    heads = "corpus\tnumber\tpublished\tcorrected\treason\n"

    corrections.write_text(heads + "trec07p\t41\tham\tspam\tan advertisement\nspamassassin\t42\tham\tspam\tsold\n")
    corrected = accuracy.correct(index)

    assert corrected.name == "index_corrected.tsv"
    assert corrected.read_text() == "spam\tdata/000041.eml\nham\tdata/000042.eml\nspam\tdata/000410.eml\n"
    corrections.write_text(heads + "trec07p\t410\tham\tspam\tan advertisement\n")
    with pytest.raises(ValueError, match=r"410\.eml has the label spam"):
        accuracy.correct(index)
