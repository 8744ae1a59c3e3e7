"""Which labels are learned, and when."""

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


def test_immediate_learns_every_label_at_once() -> None:
    regime, cases = parse_regime("immediate"), [case("spam"), case("ham")]

    assert [list(regime.due_labels(labelled)) for labelled in cases] == [[cases[0]], [cases[1]]]


def test_delayed_learns_a_label_after_that_many_other_messages_and_never_the_last_ones() -> None:
    regime, cases = parse_regime("delayed:2"), [case("spam") for _ in range(4)]

    assert [list(regime.due_labels(labelled)) for labelled in cases] == [[], [], [cases[0]], [cases[1]]]


def test_none_learns_no_label() -> None:
    assert not parse_regime("none").due_labels(case("spam", state=LEARNING))


@pytest.mark.parametrize("regime", ["errors", "unsure"])
@pytest.mark.parametrize(
    ("label", "verdict", "learned"),
    [
        ("ham", Verdict.HAM, False),
        ("ham", Verdict.SPAM, True),
        ("ham", Verdict.REJECT, True),
        ("spam", Verdict.HAM, True),
        ("spam", Verdict.SPAM, False),
        ("spam", Verdict.REJECT, False),
    ],
)
def test_errors_and_unsure_learn_the_label_of_a_wrong_verdict(
    regime: str, label: str, verdict: Verdict, learned: bool
) -> None:
    assert bool(parse_regime(regime).due_labels(case(label, verdict))) is learned


@pytest.mark.parametrize("label", ["spam", "ham"])
def test_only_unsure_learns_the_label_of_an_unsure_verdict(label: str) -> None:
    assert parse_regime("unsure").due_labels(case(label, Verdict.UNSURE))
    assert not parse_regime("errors").due_labels(case(label, Verdict.UNSURE))


@pytest.mark.parametrize("regime", ["errors", "unsure"])
def test_every_label_is_learned_while_the_model_is_learning(regime: str) -> None:
    assert parse_regime(regime).due_labels(case("ham", Verdict.UNSURE, LEARNING))
    assert parse_regime(regime).due_labels(case("ham", Verdict.HAM, LEARNING))


@pytest.mark.parametrize("name", ["", "sometimes", "delayed", "delayed:x", "none:1", "immediate:0"])
def test_another_name_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"no regime|invalid literal"):
        parse_regime(name)
