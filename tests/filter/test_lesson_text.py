"""What feedback answers."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbstream.bayes.clues import Clue
from nbstream.filter import Check, Contradiction, FeedbackOutcome, FeedbackResult, describe_lesson
from nbstream.policy.verdict import ModelState, Thresholds, Verdict


def check(probability: float, verdict: Verdict, ham: int = 180) -> Check:
    state = ModelState({"ham": ham, "spam": 300}, {"ham": 200, "spam": 200})
    return Check(
        id="key",
        verdict=verdict,
        probability=probability,
        score=0.0,
        reason="",
        state=state,
        clues=(),
        thresholds=Thresholds(),
    )


BEFORE, AFTER = check(0.41, Verdict.UNSURE), check(0.93, Verdict.SPAM)


@pytest.mark.parametrize(
    ("lesson", "text"),
    [
        (
            FeedbackResult(FeedbackOutcome.LEARNED, "spam", BEFORE, AFTER),
            "learned as spam: P 0.41 -> 0.93, was unsure, now spam; ham 180/200 known",
        ),
        (
            FeedbackResult(FeedbackOutcome.LEARNED, "spam", BEFORE, AFTER, own_model="example.org/ann"),
            "learned as spam: P 0.41 -> 0.93, was unsure, now spam; ham 180/200 known; model=example.org/ann",
        ),
        (
            FeedbackResult(FeedbackOutcome.RELEARNED, "spam", BEFORE, AFTER, former_class_name="ham"),
            "relearned as spam, was learned as ham: P 0.41 -> 0.93, was unsure, now spam; ham 180/200 known",
        ),
        (
            FeedbackResult(FeedbackOutcome.ALREADY, "spam", AFTER, AFTER),
            "already learned as spam, nothing changed: P 0.93, spam; ham 180/200 known",
        ),
        (
            FeedbackResult(FeedbackOutcome.UNLEARNED, "ham", BEFORE, check(0.9951, Verdict.UNSURE)),
            "unlearned, was learned as ham: P 0.41 -> 0.9951, still unsure; ham 180/200 known",
        ),
        (
            FeedbackResult(FeedbackOutcome.UNKNOWN, None, BEFORE, BEFORE),
            "unknown, nothing changed: it was never learned, or so long ago that this is forgotten",
        ),
    ],
)
def test_a_lesson_says_what_changed(lesson: FeedbackResult, text: str) -> None:
    assert describe_lesson(lesson) == text


CLUES = [
    Clue(b"from:offers.example.com", 4.0),
    Clue(b"subject:lunch", -3.0),
    Clue(b"body:pr\xc3\xbcfung\r\n550 no", 2.0),
    Clue(b"x" * 3000, 1.5),
    Clue(b"body:free", 1.0),
]


@given(st.lists(st.binary(min_size=1, max_size=200), min_size=1), st.sampled_from(FeedbackOutcome))
def test_the_line_is_printable_ascii_and_fits_into_a_reply(tokens: list[bytes], outcome: FeedbackOutcome) -> None:
    state = ModelState({"ham": 10**9, "spam": 10**9}, {"ham": 10**9 + 1, "spam": 10**9 + 1})
    clues = [Clue(token, 9.0) for token in tokens]
    unsure = Check(
        id="key",
        verdict=Verdict.UNSURE,
        probability=0.9999,
        score=0.0,
        reason="",
        state=state,
        clues=clues,
        thresholds=Thresholds(),
    )
    contradiction = Contradiction(has_most_weight=True, wait_seconds=0.0)

    text = describe_lesson(
        FeedbackResult(
            outcome, "ham", unsure, replace(unsure, verdict=Verdict.REJECT), contradiction, own_model="a" * 700
        )
    )

    assert text.isascii()
    assert text.isprintable()
    assert len(f"250 2.0.0 {text}; id={'x' * 24}\r\n") <= 512
