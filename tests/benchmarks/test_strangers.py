"""``make strangers`` works: over letters written for tests it makes every attack and writes the whole page."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from itertools import chain, cycle, islice, product

import pytest

from nbstream.assembly.filter import make_filter
from nbstream.policy.autolearn import MAX_SHIFT, SPAM_MARGIN
from tests.benchmarks.strangers import attack
from tests.benchmarks.strangers.mails import Letter, Stranger, again, frequent_sender, read_letter
from tests.letters import letters

MARKS = (20, 60)


@cache
def stream() -> attack.Stream:
    """900 letters that people taught, and 100 later ones."""
    all_letters = [read_letter(label, raw) for label, raw in letters(1000)]
    return attack.Stream(all_letters[:900], all_letters[900:])


def known() -> Letter:
    return frequent_sender(stream().taught)


@pytest.fixture
def everything_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    """The letters are so alike that a model soon has nothing to learn from more of them: here it goes on."""
    monkeypatch.setattr("nbstream.policy.autolearn.MAX_SCORE", math.inf)


@pytest.mark.usefixtures("everything_is_new")
@pytest.mark.parametrize("name", list(attack.campaigns(stream())))
async def test_a_campaign_that_strangers_prepared_as_ham_stays_spam(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attack, "MARKS", MARKS)
    people = await attack.teach(stream().taught)

    outcome = await attack.attack_as_ham(stream(), people, attack.campaigns(stream())[name], known())

    before, *after = outcome.probabilities
    # In so few words the whole text of a campaign shows: mail with it is not learned as ham.
    assert min(outcome.learned) > MARKS[-1] // 2 or "whole" in name
    assert min(before) >= 0.999
    assert min(min(at_mark) for at_mark in after) >= 0.95


async def test_of_three_hundred_copies_of_a_list_s_mail_a_few_are_learned() -> None:
    people, stranger = await attack.teach(stream().taught), Stranger()
    list_mail, spam = stream().of_class("ham")[0], stream().of_class("spam")
    lessons = chain.from_iterable(
        (stranger.lesson(list_mail, known(), number, list_mail), again(other, number))
        for number, other in enumerate(islice(cycle(spam), 300))
    )

    outcome = await attack.attack(people, lessons, [], [600])

    assert 0 < sum(outcome.learned) < 30


@pytest.mark.usefixtures("everything_is_new")
async def test_copies_of_a_list_s_mail_make_a_campaign_that_is_not_sure_spam_unsure_at_most() -> None:
    """300 copies of one public mail have the words of a campaign, which hides among words of that mail.

    So an attack on real mail moved a campaign from 0.996 to 0.948: it ended at the bound. What people's lessons
    alone put a margin above the threshold for spam stays spam.
    """
    people, stranger = await attack.teach(stream().taught), Stranger()
    list_mail, spam = stream().of_class("ham")[0], stream().of_class("spam")
    later_spam = [letter for letter in stream().later if letter.label == "spam"]
    campaigns = [
        stranger.campaign(replace(letter, text=f"{letter.text}\n{' '.join(list_mail.words[:count])}"), known())
        for letter, count in product(later_spam, range(17))
    ]
    by_people = make_filter(attack.SETTINGS, people, people)
    probabilities = await attack.probabilities_of(by_people, campaigns)
    watched = [raw for raw, p in zip(campaigns, probabilities, strict=True) if 0.95 <= p <= 0.999]
    lessons = chain.from_iterable(
        (stranger.lesson(list_mail, known(), number, list_mail), again(other, number))
        for number, other in enumerate(islice(cycle(spam), 300))
    )

    outcome = await attack.attack(people, lessons, watched, [600])

    before, after = outcome.probabilities
    assert outcome.learned == (300, 300)
    assert min(after) < 0.95, "the attack has an effect"
    assert min(after) >= 0.5
    shifts = [logit(was) - logit(now) for was, now in zip(before, after, strict=True)]
    assert max(shifts) <= MAX_SHIFT + 1e-9
    threshold = attack.SETTINGS.verdict.spam
    assert threshold
    is_sure = [logit(was) >= logit(threshold) + SPAM_MARGIN for was in before]
    assert any(is_sure)
    assert min(now for now, sure in zip(after, is_sure, strict=True) if sure) >= threshold


def logit(probability: float) -> float:
    return math.log(probability / (1 - probability))


@pytest.mark.usefixtures("everything_is_new")
async def test_without_a_bound_the_same_attack_makes_spam_of_the_campaign_ham(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(attack, "MARKS", MARKS)
    monkeypatch.setattr("nbstream.policy.autolearn.MAX_SHIFT", 1000 * MAX_SHIFT)
    monkeypatch.setattr("nbstream.policy.autolearn.SPAM_MARGIN", math.inf)
    people = await attack.teach(stream().taught)

    outcome = await attack.attack_as_ham(stream(), people, Stranger(), known())

    assert min(outcome.probabilities[-1]) < 0.5


@pytest.mark.parametrize("name", list(attack.impostors()))
async def test_ham_of_known_correspondents_stays_out_of_spam(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attack, "MARKS", MARKS)
    people = await attack.teach(stream().taught)

    outcome = await attack.attack_as_spam(stream(), people, attack.impostors()[name], known())

    assert outcome.probabilities[0]
    assert max(outcome.probabilities[-1]) < 0.95


def test_the_same_mail_again_is_another_mail_with_the_same_words() -> None:
    letter = known()

    first, second = (read_letter("ham", again(letter, number)) for number in (1, 2))

    assert (first.text, first.sender, first.subject) == (letter.text, letter.sender, letter.subject)
    assert len({letter.raw, first.raw, second.raw}) == 3
