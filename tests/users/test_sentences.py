"""Three sentences that say why."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nbstream.policy.explanation import CountedClue, Explanation
from nbstream.policy.verdict import ModelState, Thresholds
from nbstream.users.sentences import describe

TAUGHT = ModelState({"ham": 100, "spam": 100}, {"ham": 10, "spam": 10})


def explanation(verdict: str, probability: float, **clues: float) -> Explanation:
    """An explanation with these clues, whose names have __ for the colon and _ for a dot."""
    named = [
        CountedClue(name.replace("__", ":").replace("_at_", "@").replace("_", ".").encode(), ratio, 1, 1)
        for name, ratio in clues.items()
    ]
    ordered = sorted(named, key=lambda clue: -abs(clue.log_ratio))
    return Explanation(0.0, verdict, "score", probability, 1.0, 0.0, Thresholds(), TAUGHT, tuple(ordered))


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
    assert describe(spam, None, "en") == [
        "It looks like spam (99 %).",
        "What weighed most against it: the sender's domain “shop.example”, the words “pills”, “cheap” and a link "
        "to “bad.example”.",
    ]
    assert describe(spam, "ham", "de") == [
        "Die Nachricht sieht nach Spam aus (99 %).",
        "Am meisten sprach gegen sie: die Domain des Absenders „shop.example“, die Wörter „pills“, „cheap“ und "
        "ein Link zu „bad.example“.",
        "Sie haben diese Nachricht erwünscht genannt.",
    ]


def test_ham_says_what_spoke_for_it() -> None:
    ham = explanation("ham", 0.0001, from__ann_at_x_example=-3.0, from__x_example=-2.0, body__pills=9.0)
    assert describe(ham, None, "en") == [
        "It does not look like spam (less than 1 %).",
        "What weighed most for it: the sender “ann@x.example”.",
    ]


def test_what_others_may_read_only_in_the_header_is_not_named() -> None:
    clues = {
        "delivered-to__bob_at_x_org": 9.0,
        "to__bob_at_x_org": 8.0,
        "raw__bob": 7.0,
        "received__bob_example": 6.0,
    }
    sentences = describe(explanation("spam", 0.999, **clues), None, "en")
    assert sentences[1] == "What weighed most against it: the way in which the message is built."
    assert "bob" not in " ".join(sentences)


def test_no_more_than_some_words_are_named() -> None:
    words = {f"body__w{n}": 10.0 - n for n in range(10)}
    assert "“w0”, “w1”, “w2”, “w3”." in describe(explanation("reject", 0.9999, **words), None, "en")[1]


def test_a_verdict_that_is_not_sure_says_so_and_a_model_that_learns() -> None:
    unsure = replace(explanation("unsure", 0.5), state=ModelState({"ham": 0, "spam": 0}, {"ham": 10, "spam": 10}))
    assert describe(unsure, None, "en") == [
        "It looks 50 % like spam, which is not enough to be sure.",
        "The filter has not seen enough mail yet to be sure of anything.",
    ]


@pytest.mark.parametrize("language", ["en", "de"])
@pytest.mark.parametrize("label", [None, "spam", "ham"])
@pytest.mark.parametrize("verdict", ["ham", "unsure", "spam", "reject"])
def test_there_are_three_sentences_at_most(language: str, label: str | None, verdict: str) -> None:
    clues = {"from__a_example": 1.0, "body__b": -1.0, "file__c": 2.0, "from_name__d": -2.0, "tree__e": 3.0}
    assert len(describe(explanation(verdict, 0.7, **clues), label, language)) <= 3


def test_words_of_the_message_hide_nothing() -> None:
    clue = CountedClue("body:\u202epay".encode(), 2.0, 1, 1)
    spam = replace(explanation("spam", 0.98), clues=(clue,))
    assert "\u202e" not in describe(spam, None, "en")[1]


def test_of_private_tokens_nothing_is_named() -> None:
    clue = CountedClue(b"body:#S5xFVazBNVNdt9fV", 2.0, 1, 1)
    spam = replace(explanation("spam", 0.98), clues=(clue,))
    assert (
        describe(spam, None, "en")[1] == "This server stores no words, and so cannot say which ones weighed most."
    )
    assert "#" not in " ".join(describe(spam, None, "de"))


def test_corrections_that_had_a_say_are_told_of_where_nothing_else_is() -> None:
    spam = explanation("spam", 0.98, body__pills=2.0)
    assert describe(spam, None, "en", is_corrected=True)[-1] == "Corrections by users here had a say in it."
    assert describe(spam, "ham", "en", is_corrected=True)[-1] == "You have called this message wanted."
