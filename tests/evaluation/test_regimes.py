"""Which labels are learned, and when."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nbstream.evaluation.regimes import LabelledCheck, LabelRegime, count_taught, messages_until_kept, parse_regime
from nbstream.filter import Check
from nbstream.mail.message import Message
from nbstream.policy.verdict import ModelState, Thresholds, Verdict

READY, LEARNING = ModelState({"ham": 1}, {"ham": 1}), ModelState({"ham": 0}, {"ham": 1})


def case(label: str, verdict: Verdict = Verdict.HAM, state: ModelState = READY) -> LabelledCheck:
    return LabelledCheck(
        Message.from_text(label),
        label,
        Check(
            id="id",
            verdict=verdict,
            probability=0.5,
            score=0.0,
            reason="",
            state=state,
            clues=(),
            thresholds=Thresholds(),
        ),
    )


def test_delayed_learns_a_label_after_that_many_other_messages_and_never_the_last_ones() -> None:
    regime, cases = parse_regime("delayed:2"), [case("spam") for _ in range(4)]

    assert [list(regime(labelled)) for labelled in cases] == [[], [], [cases[0]], [cases[1]]]


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
    assert bool(parse_regime(regime)(case(label, verdict))) is learned


@pytest.mark.parametrize("regime", ["errors", "unsure"])
def test_every_label_is_learned_while_the_model_is_learning(regime: str) -> None:
    assert parse_regime(regime)(case("ham", Verdict.UNSURE, LEARNING))
    assert parse_regime(regime)(case("ham", Verdict.HAM, LEARNING))


@pytest.mark.parametrize(
    ("label", "probability", "contradicts"),
    [("ham", 0.49, False), ("ham", 0.5, True), ("spam", 0.49, True), ("spam", 0.5, False), ("spam", 1.0, False)],
)
def test_a_label_on_the_other_side_of_unsure_is_a_contradiction(
    label: str, probability: float, contradicts: bool
) -> None:
    labelled = case(label)
    decided = replace(labelled, check=replace(labelled.check, probability=probability))
    learning = replace(labelled, check=replace(decided.check, state=LEARNING))

    assert decided.is_contradiction is contradicts
    assert not learning.is_contradiction


def learned(regime: LabelRegime, cases: list[LabelledCheck]) -> list[int]:
    """The positions of the cases whose labels are learned."""
    return [due.position for case in cases for due in regime(case)]


def stream(*cases: tuple[str, Verdict], draw: float = 0.0) -> list[LabelledCheck]:
    """Cases with their positions in a stream."""
    return [
        replace(case(label, verdict), position=position, draw=draw)
        for position, (label, verdict) in enumerate(cases, start=1)
    ]


@pytest.mark.parametrize(
    ("label", "verdict", "moved"),
    [
        ("spam", Verdict.HAM, True),
        ("spam", Verdict.UNSURE, True),
        ("spam", Verdict.SPAM, False),
        ("spam", Verdict.REJECT, False),
        ("ham", Verdict.HAM, False),
        ("ham", Verdict.UNSURE, False),
        ("ham", Verdict.SPAM, True),
        ("ham", Verdict.REJECT, True),
    ],
)
def test_inbox_learns_the_label_of_mail_in_the_wrong_folder_alone(
    label: str, verdict: Verdict, moved: bool
) -> None:
    assert learned(parse_regime("inbox:1,1,0"), stream((label, verdict))) == [1] * moved


def test_the_delay_of_inbox_is_counted_in_messages_and_not_in_corrections() -> None:
    wrong, right = ("spam", Verdict.HAM), ("spam", Verdict.SPAM)
    regime = parse_regime("inbox:1,1,2")

    due = [learned(regime, [each]) for each in stream(wrong, right, wrong, right, right, right)]

    assert due == [[], [], [1], [], [3], []]


@pytest.mark.parametrize("name", ["none", "errors", "inbox:1,1,0"])
def test_of_taught_messages_every_label_is_learned_at_once_and_the_regime_follows(name: str) -> None:
    cases = stream(*[("spam", Verdict.SPAM)] * 3, ("spam", Verdict.HAM))

    assert learned(parse_regime(name, taught=2), cases) == [1, 2] + [4] * (name != "none")


def test_first_learns_every_label_of_the_first_messages_and_none_after_them() -> None:
    cases = stream(*[("spam", Verdict.HAM)] * 4)

    assert learned(parse_regime("first:3"), cases) == [1, 2, 3]
    assert (count_taught("first:3", 0), count_taught("inbox", 5)) == (3, 5)


@pytest.mark.parametrize(
    "name",
    ["", "sometimes", "delayed", "delayed:x", "none:1", "immediate:0", "first", "inbox:1", "inbox:1,1,x"],
)
def test_another_name_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"no regime|is no whole number|not enough values"):
        parse_regime(name)


@pytest.mark.parametrize(
    ("label", "verdict", "moved"),
    [
        ("spam", Verdict.HAM, True),
        ("spam", Verdict.UNSURE, True),
        ("spam", Verdict.SPAM, False),
        ("ham", Verdict.SPAM, False),
        ("ham", Verdict.HAM, False),
    ],
)
def test_spam_only_learns_the_label_of_spam_in_the_inbox_alone(label: str, verdict: Verdict, moved: bool) -> None:
    assert learned(parse_regime("spam-only:1,0,5"), stream((label, verdict))) == [1] * moved


@pytest.mark.parametrize(("name", "messages"), [("spam-only:0.3,50,7", 7), ("inbox", None), ("none", None)])
def test_what_is_unmoved_is_implicit_ham_in_the_regime_spam_only_alone(name: str, messages: int | None) -> None:
    assert messages_until_kept(name) == messages
