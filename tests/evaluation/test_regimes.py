"""Which labels are given, and when."""

from __future__ import annotations

import pytest

from nbstream.evaluation.regimes import LabelledCheck, parse_regime
from nbstream.filter import Check
from nbstream.mail.message import Message
from nbstream.policy.verdict import ModelState, Thresholds, Verdict

READY, LEARNING = ModelState({"ham": 1}, {"ham": 1}), ModelState({"ham": 0}, {"ham": 1})


def case(label: str, verdict: Verdict = Verdict.HAM, state: ModelState = READY) -> LabelledCheck:
    return LabelledCheck(
        Message.from_text(label), label, Check("id", verdict, 0.5, 0.0, "", state, (), Thresholds())
    )


def test_immediate_gives_every_label_at_once() -> None:
    regime, cases = parse_regime("immediate"), [case("spam"), case("ham")]

    assert [list(regime.due_labels(each)) for each in cases] == [[cases[0]], [cases[1]]]


def test_delayed_gives_every_label_when_as_many_others_were_scored_and_keeps_the_last() -> None:
    regime, cases = parse_regime("delayed:2"), [case("spam") for _ in range(4)]

    assert [list(regime.due_labels(each)) for each in cases] == [[], [], [cases[0]], [cases[1]]]


def test_none_gives_none() -> None:
    assert not parse_regime("none").due_labels(case("spam", state=LEARNING))


@pytest.mark.parametrize("regime", ["errors", "unsure"])
@pytest.mark.parametrize(
    ("label", "verdict", "given"),
    [
        ("ham", Verdict.HAM, False),
        ("ham", Verdict.SPAM, True),
        ("ham", Verdict.REJECT, True),
        ("spam", Verdict.HAM, True),
        ("spam", Verdict.SPAM, False),
        ("spam", Verdict.REJECT, False),
    ],
)
def test_errors_and_unsure_give_the_label_of_a_wrong_verdict(
    regime: str, label: str, verdict: Verdict, given: bool
) -> None:
    assert bool(parse_regime(regime).due_labels(case(label, verdict))) is given


@pytest.mark.parametrize("label", ["spam", "ham"])
def test_only_unsure_gives_the_label_of_an_unsure_verdict(label: str) -> None:
    assert parse_regime("unsure").due_labels(case(label, Verdict.UNSURE))
    assert not parse_regime("errors").due_labels(case(label, Verdict.UNSURE))


@pytest.mark.parametrize("regime", ["errors", "unsure"])
def test_while_the_model_is_learning_every_label_is_given(regime: str) -> None:
    assert parse_regime(regime).due_labels(case("ham", Verdict.UNSURE, LEARNING))
    assert parse_regime(regime).due_labels(case("ham", Verdict.HAM, LEARNING))


@pytest.mark.parametrize("name", ["", "sometimes", "delayed", "delayed:x", "none:1", "immediate:0"])
def test_another_name_is_no_regime(name: str) -> None:
    with pytest.raises(ValueError, match=r"no regime|invalid literal"):
        parse_regime(name)
