"""Which messages are near-copies of one whose label contradicted the check, and which of them count as wrong."""

from __future__ import annotations

import asyncio

import pytest

from nbstream.evaluation.regimes import LabelledCheck
from nbstream.evaluation.streams import LabelledContent
from nbstream.filter import Check
from nbstream.mail.message import Message
from nbstream.policy.verdict import ModelState, Thresholds, Verdict
from tests.benchmarks.near_copies import CopyCounter, NearCopies, count_near_copies
from tests.letters import letters

TOKENS = [b"%d" % number for number in range(10)]


def case(label: str, probability: float, fields: str = "From: News <news@example.org>") -> LabelledCheck:
    check = Check("id", Verdict.UNSURE, probability, 0.0, "", ModelState({}), (), Thresholds())
    return LabelledCheck(Message.parse(f"{fields}\n\nHello\n".encode()), label, check)


def counted(*cases: tuple[LabelledCheck, list[bytes]]) -> NearCopies:
    counter = CopyCounter()
    for labelled, tokens in cases:
        counter.add(labelled, tokens)
    return counter.result()


def test_a_near_copy_that_is_called_wrong_is_counted_with_the_contradiction_that_it_follows() -> None:
    wrong, right = case("ham", 0.9), case("ham", 0.1)

    result = counted((wrong, TOKENS), (right, TOKENS), (wrong, TOKENS), (wrong, TOKENS[:8]), (right, TOKENS))

    assert result == NearCopies(contradictions=1, copies=4, wrong=2, most_wrong=2, with_several=1)


def test_what_shares_fewer_tokens_is_a_contradiction_of_its_own() -> None:
    wrong = case("ham", 0.9)

    assert counted((wrong, TOKENS), (wrong, TOKENS[:7])) == NearCopies(2, 0, 0, 0, 0)


@pytest.mark.parametrize(
    ("fields", "copies"),
    [
        ("From: Other Name <NEWS@example.org>", 1),
        ("From: other@example.org", 0),
        ("List-Id: Friends <friends.example.org>\nFrom: member@example.org", 0),
        ("Subject: no sender", 0),
    ],
)
def test_a_copy_comes_from_the_same_sender(fields: str, copies: int) -> None:
    assert counted((case("ham", 0.9), TOKENS), (case("ham", 0.1, fields), TOKENS)).copies == copies


def test_a_copy_may_come_from_another_member_of_the_same_list() -> None:
    one, other = (case("ham", 0.9, f"List-Id: <x.example.org>\nFrom: {name}@example.org") for name in "ab")

    assert counted((one, TOKENS), (other, TOKENS)) == NearCopies(1, 1, 1, 1, 0)


def test_a_message_with_the_other_label_is_no_copy() -> None:
    assert counted((case("ham", 0.9), TOKENS), (case("spam", 0.9), TOKENS)).copies == 0


def test_a_stream_is_learned_as_it_goes() -> None:
    stream = [LabelledContent(label, raw) for label, raw in letters(150)]
    again = [LabelledContent("ham", raw.replace(b"<7.", b"<x.")) for label, raw in letters(30) if label == "spam"]

    result = asyncio.run(count_near_copies([*stream, again[0], *again]))

    assert result.contradictions >= 1
    assert result.copies >= 1
