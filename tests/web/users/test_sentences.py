"""Three sentences that say why."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nbstream.policy.check import CountedClue, Explanation
from nbstream.policy.verdict import ModelState, Thresholds
from nbstream.web.users.sentences import describe

TAUGHT = ModelState({"ham": 100, "spam": 100}, {"ham": 10, "spam": 10})


def explanation(verdict: str, probability: float, **clues: float) -> Explanation:
    """An explanation with these clues, whose names have __ for the colon and _ for a dot."""
    named = [
        CountedClue(name.replace("__", ":").replace("_at_", "@").replace("_", ".").encode(), ratio, 1, 1)
        for name, ratio in clues.items()
    ]
    ordered = sorted(named, key=lambda clue: -abs(clue.log_ratio))
    return Explanation(
        at=0.0,
        verdict=verdict,
        reason="score",
        probability=probability,
        score=1.0,
        prior=0.0,
        thresholds=Thresholds(),
        state=TAUGHT,
        clues=tuple(ordered),
    )


def test_spam_says_what_spoke_against_it() -> None:
    spam = explanation(
        "spam",
        0.986,
        from__shop_example=3.0,
        body__pills=2.0,
        subject__cheap=1.9,
        url__bad_example=1,
        body__hi=-5,
    )
    assert describe(spam, "en") == [
        "It looks like spam (99 %).",
        "What weighed most against it: the sender's domain “shop.example”, the words “pills”, “cheap” and a link "
        "to “bad.example”.",
    ]
    assert describe(spam, "de") == [
        "Die Nachricht sieht nach Spam aus (99 %).",
        "Am meisten sprach gegen sie: die Domain des Absenders „shop.example“, die Wörter „pills“, „cheap“ und "
        "ein Link zu „bad.example“.",
    ]


def test_what_others_may_read_only_in_the_header_is_not_named() -> None:
    clues = {
        "delivered-to__bob_at_x_org": 9.0,
        "to__bob_at_x_org": 8.0,
        "raw__bob": 7.0,
        "received__bob_example": 6.0,
    }
    sentences = describe(explanation("spam", 0.999, **clues), "en")
    assert sentences[1] == "What weighed most against it: the way in which the message is built."
    assert "bob" not in " ".join(sentences)


@pytest.mark.parametrize("language", ["en", "de"])
@pytest.mark.parametrize("verdict", ["ham", "unsure", "spam", "reject"])
def test_there_are_three_sentences_at_most(language: str, verdict: str) -> None:
    clues = {"from__a_example": 1.0, "body__b": -1.0, "file__c": 2.0, "from_name__d": -2.0, "tree__e": 3.0}
    assert len(describe(explanation(verdict, 0.7, **clues), language, is_corrected=True)) <= 3


def test_words_of_the_message_hide_nothing() -> None:
    clue = CountedClue("body:\u202epay".encode(), 2.0, 1, 1)
    spam = replace(explanation("spam", 0.98), clues=(clue,))
    assert "\u202e" not in describe(spam, "en")[1]
