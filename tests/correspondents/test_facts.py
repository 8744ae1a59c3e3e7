"""The tokens of whom we know: who gets one, who does not, and for how long."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbstream.correspondents.facts import (
    ANSWER,
    ANSWER_TO_OTHERS,
    DAY_SECONDS,
    SENDER,
    CorrespondentFacts,
    CorrespondentTokenizer,
    FactTimes,
)
from nbstream.mail.message import Message
from nbstream.tokens.origins import token_origin
from nbstream.tokens.tokenizer import Tokenizer, TokenizerOptions
from nbstream.tokens.tokens import Tokens
from tests.correspondents.mail import BOB, NOW, OURS, READER, answer, facts_of, message, sent


def tokens(facts: CorrespondentFacts, incoming: Message, now: float = NOW) -> list[bytes]:
    return list(facts.tokens(incoming, READER, now))


def test_an_answer_from_where_we_wrote_to_is_known() -> None:
    facts = facts_of(sent(BOB))

    colleague = "office@sales.partner.example"
    cited = f"References: <other.message.1@x.example>\n <{OURS.decode()}>"
    assert ANSWER in tokens(facts, answer(proved="partner.example"))
    assert tokens(facts, answer(sender=colleague, proved="partner.example")) == [ANSWER]
    assert ANSWER in tokens(facts, message(cited, proved="partner.example"))


def test_whoever_only_says_that_he_is_the_one_who_was_asked_has_the_token_of_others() -> None:
    facts = facts_of(sent(BOB))
    refuted = "Authentication-Results: mx.example.org; dmarc=fail header.from=partner.example"

    assert tokens(facts, answer()) == [ANSWER_TO_OTHERS]
    assert tokens(facts, answer(proved="attacker.example")) == [ANSWER_TO_OTHERS]
    assert tokens(facts, message(refuted, f"In-Reply-To: <{OURS.decode()}>")) == [ANSWER_TO_OTHERS]


def test_an_answer_from_elsewhere_is_another_token() -> None:
    """A Message-ID that a mailing list has made public, or that was passed on, says less."""
    facts = facts_of(sent(BOB))

    assert tokens(facts, answer(sender="eve@attacker.example", proved="attacker.example")) == [ANSWER_TO_OTHERS]
    assert tokens(facts, answer(sender="eve@notpartner.example", proved="notpartner.example")) == [
        ANSWER_TO_OTHERS
    ]
    assert tokens(facts, answer(sender=f"{BOB}, eve@attacker.example")) == [ANSWER_TO_OTHERS]
    assert tokens(facts_of(sent("ann@shop.example")), answer(sender="eve@x.example")) == [ANSWER_TO_OTHERS]


def test_a_sender_whom_a_user_wrote_to_is_known_where_he_is_proved() -> None:
    facts = facts_of(sent(BOB))

    assert tokens(facts, message(proved="partner.example")) == [SENDER]
    assert tokens(facts, answer(proved="partner.example")) == [ANSWER, SENDER]
    assert tokens(facts, message()) == []
    assert tokens(facts, message(proved="attacker.example")) == []
    assert tokens(facts, message(sender="carol@partner.example", proved="partner.example")) == []


def test_facts_expire() -> None:
    facts = facts_of(sent(BOB, at=NOW))
    later, much_later = NOW + 91 * DAY_SECONDS, NOW + 366 * DAY_SECONDS

    assert tokens(facts, answer(proved="partner.example", at=later), later) == [SENDER]
    assert tokens(facts, answer(proved="partner.example", at=much_later), much_later) == []

    facts.expire(later)
    assert (len(facts.answers), len(facts.senders)) == (0, 1)
    facts.expire(much_later)
    assert (len(facts.answers), len(facts.senders)) == (0, 0)


def test_the_tokens_come_with_those_of_the_header_and_the_key_stays() -> None:
    facts = facts_of(sent(BOB))
    plain = Tokenizer(TokenizerOptions())
    knowing = CorrespondentTokenizer(plain, lambda: facts, READER, lambda: NOW)
    incoming = answer(proved="partner.example")

    taken, before = knowing.tokenize(incoming), plain.tokenize(incoming)

    assert taken.key == before.key
    assert taken.tokens.head == (ANSWER, SENDER, *before.tokens.head)
    assert taken.tokens == Tokens.from_all(taken.tokens.all)
    assert (taken.tokens.body, taken.tokens.raw_header) == (before.tokens.body, before.tokens.raw_header)


@pytest.mark.parametrize("name", [ANSWER, ANSWER_TO_OTHERS, SENDER])
def test_no_field_of_a_sender_makes_these_tokens(name: bytes) -> None:
    text = name.decode()
    forged = message(
        f"{text}: {text}", f"Known: {text[6:]}", f"X: {text}", f"List-Id: {text}", "Known.Answer: other"
    )

    assert name not in Tokenizer(TokenizerOptions()).tokenize(forged).tokens.all
    assert token_origin(text).startswith("whom we know: ")


def test_a_hostile_header_costs_little() -> None:
    """Thousands of identifiers, From fields and dates are read within bounds."""
    ids = " ".join(f"<{number:012}@x.example>" for number in range(50_000))
    facts = facts_of(sent(BOB))

    assert tokens(facts, message(f"References: {ids}", f"In-Reply-To: {ids}")) == []
    cited = message(f"References: {ids[:20_000]}> <{OURS.decode()}>", proved="partner.example")
    assert tokens(facts, cited) == [ANSWER, SENDER]


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(0, 1000)), max_size=60), st.integers(0, 1000))
def test_times_are_those_of_a_dictionary(added: list[tuple[int, int]], dropped: int) -> None:
    times, expected = FactTimes(1000), dict[int, tuple[int, int]]()
    for number, (fact, at) in enumerate(added):
        times.add(fact, at)
        first, last = expected.get(fact, (at, at))
        expected[fact] = min(first, at), max(last, at)
        if number % 7 == 0:
            times.drop_before(0)
    assert {fact: times.find(fact) for fact in expected} == expected
    assert len(times) == len(expected)

    times.drop_before(dropped)
    expected = {fact: pair for fact, pair in expected.items() if pair[1] >= dropped}
    assert {fact: times.find(fact) for fact in range(42) if times.find(fact)} == expected


def test_the_oldest_facts_make_room() -> None:
    times, draw = FactTimes(5000), random.Random(1)
    facts = [draw.getrandbits(64) for _ in range(30_000)]
    for at, fact in enumerate(facts):
        times.add(fact, at)

    assert len(times) <= 5000 + 4096
    assert times.find(facts[0]) is None
    assert times.find(facts[-1]) == (29_999, 29_999)
