"""Attacks on a filter in memory: strangers write what automatic learning learns, or hide spam among words.

Rules: people teach first, then strangers write, and nobody says anything more. The filter and what learns without
people are those of the daemon, in the default configuration with ``autolearn: {}``. What is watched is scored and
never learned. The stranger is a strong one: he knows the ham that people taught, and which of his mails are
learned.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import cycle, islice

from nbstream.assembly.filter import make_autolearner, make_filter
from nbstream.assembly.policy import make_message_reader
from nbstream.config import Settings
from nbstream.filter import Filter
from nbstream.mail.message import Message
from nbstream.store.model.memory_model import MemoryModel
from tests.benchmarks.strangers.mails import (
    Letter,
    Stranger,
    again,
    copied_fields,
    mail,
    words_of_both,
    words_of_spam,
)

SETTINGS = Settings.model_validate({"autolearn": {}})
MARKS = (250, 1000)
"""After how many pairs of mails the watched mail is scored."""

_SURE_HAM, _SURE_SPAM = 0.001, 0.999
_TEMPLATES = 200
WATCHED = 20
"""How many campaign mails are watched."""

_CAMPAIGN_WORDS = 5
_MANY_DOMAINS = 1000
_KNOWN_MAILS = 3  # a correspondent is known from this many ham on


@dataclass(frozen=True, slots=True)
class Stream:
    """The mail that people taught, and the mail that comes later."""

    taught: Sequence[Letter]
    later: Sequence[Letter]

    def of_class(self, label: str) -> list[Letter]:
        """The taught mail of one class that has some text."""
        return [letter for letter in self.taught if letter.label == label and len(letter.words) > _CAMPAIGN_WORDS]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an attack did.

    ``probabilities`` are those of the watched mail before it and at each mark, and ``learned`` is how many mails
    were autolearned, by class.
    """

    probabilities: Sequence[Sequence[float]]
    learned: tuple[int, ...]


async def teach(letters: Iterable[Letter]) -> MemoryModel:
    """The model of people who labelled these letters."""
    people = MemoryModel()
    spam_filter = make_filter(SETTINGS, people, people)
    for letter in letters:
        await spam_filter.learn(_message(letter.raw), letter.label, "test")
    return people


async def attack(
    people: MemoryModel, lessons: Iterable[bytes], watched: Sequence[bytes], marks: Sequence[int]
) -> Outcome:
    """The outcome of these lessons; ``marks`` are counted in lessons."""
    learner = make_autolearner(SETTINGS, people, people)
    spam_filter = make_filter(SETTINGS, people, people, learner, uses_automatic=True)
    watching_filter = make_filter(SETTINGS, people, people, uses_automatic=True)
    probabilities = [await probabilities_of(watching_filter, watched)]
    for number, lesson in enumerate(islice(lessons, max(marks)), start=1):
        await spam_filter.check(_message(lesson))
        await learner.learn_queued()
        if number in marks:
            probabilities.append(await probabilities_of(watching_filter, watched))
    return Outcome(probabilities, (await people.look_up_automatic(())).totals.messages)


async def probabilities_of(spam_filter: Filter, raws: Iterable[bytes]) -> list[float]:
    """P(spam) of each mail, without the discount of mail unlike learned spam, which strangers have no use for."""
    return [(await spam_filter.check(_message(raw))).full_probability for raw in raws]


def _message(raw: bytes) -> Message:
    return make_message_reader(SETTINGS).read_incoming(raw)


def campaigns(stream: Stream) -> dict[str, Stranger]:
    """The strangers who want their spam to be called ham."""
    of_spam, of_both = words_of_spam(stream.taught, _CAMPAIGN_WORDS), words_of_both(stream.taught, 60)
    return {
        "new words, new sender": Stranger(),
        "words that people taught as spam": Stranger(of_spam),
        "words that people taught as both": Stranger(of_both[:_CAMPAIGN_WORDS]),
        "a thousand sender domains and links": Stranger(domains=_MANY_DOMAINS),
        "header copied from public ham": Stranger(header="copied"),
        "header of a known correspondent": Stranger(header="known"),
        "the whole campaign, header copied": Stranger(header="copied", whole_campaign=True),
        "the whole campaign, header of a known correspondent": Stranger(header="known", whole_campaign=True),
        "the whole campaign and sixty words": Stranger((*of_spam, *of_both[:55]), whole_campaign=True),
    }


async def attack_as_ham(stream: Stream, people: MemoryModel, stranger: Stranger, known: Letter) -> Outcome:
    """Mail that is learned as ham prepares a campaign; the watched mail is what was spam beyond 0.999 before."""
    by_people = make_filter(SETTINGS, people, people)
    watched: list[bytes] = []
    bases: list[Letter] = []
    for letter in stream.later:
        if letter.label == "spam" and len(watched) < WATCHED:
            raw = stranger.campaign(letter, known)
            if (await probabilities_of(by_people, [raw]))[0] >= _SURE_SPAM:
                watched.append(raw)
                bases.append(letter)

    def lesson(letter: Letter, number: int) -> bytes:
        return stranger.lesson(letter, known, number, bases[0])

    templates = await _sure(by_people, stream.of_class("ham"), lesson, lambda p: p <= _SURE_HAM)
    return await attack(
        people, _pairs(templates, lesson, stream.of_class("spam")), watched, [2 * mark for mark in MARKS]
    )


def impostors() -> dict[str, Stranger]:
    """The strangers who want ham of known correspondents to be called spam."""
    return {
        "words of a known correspondent": Stranger((), whole_campaign=True),
        "words and header of a known correspondent": Stranger((), header="known", whole_campaign=True),
    }


async def attack_as_spam(stream: Stream, people: MemoryModel, stranger: Stranger, known: Letter) -> Outcome:
    """Mail that is learned as spam speaks with a known correspondent's words; his later ham is watched."""
    by_people = make_filter(SETTINGS, people, people)
    senders = Counter(letter.sender for letter in stream.taught if letter.label == "ham")
    ham = [
        letter.raw for letter in stream.later if letter.label == "ham" and senders[letter.sender] >= _KNOWN_MAILS
    ]
    watched = [raw for raw in ham[:100] if (await probabilities_of(by_people, [raw]))[0] < 0.5]

    def lesson(letter: Letter, number: int) -> bytes:
        return stranger.lesson(letter, known, number, known)

    templates = await _sure(by_people, stream.of_class("spam"), lesson, lambda p: p >= _SURE_SPAM)
    return await attack(
        people, _pairs(templates, lesson, stream.of_class("ham")), watched, [2 * mark for mark in MARKS]
    )


async def _sure(
    by_people: Filter,
    letters: Sequence[Letter],
    lesson: Callable[[Letter, int], bytes],
    is_sure: Callable[[float], bool],
) -> list[Letter]:
    """The letters of which a lesson is learned; all of them where there is none, so that the attack fails."""
    candidates = letters[: 3 * _TEMPLATES]
    probabilities = await probabilities_of(by_people, [lesson(letter, 0) for letter in candidates])
    templates = [letter for letter, p in zip(candidates, probabilities, strict=True) if is_sure(p)]
    return templates[:_TEMPLATES] or list(letters)


def _pairs(
    templates: Sequence[Letter], lesson: Callable[[Letter, int], bytes], others: Sequence[Letter]
) -> Iterable[bytes]:
    """Lessons, alternated with plain mail of the other class, so that no class leads."""
    for number, (letter, other) in enumerate(zip(cycle(templates), cycle(others), strict=False)):
        yield lesson(letter, number)
        yield again(other, number)


async def hide_among_words(
    stream: Stream, people: MemoryModel, salad: Callable[[random.Random], str], count: int = 100
) -> list[float]:
    """P(spam) of later spam with the visible text of ``salad`` at its end."""
    draw = random.Random(16)
    by_people = make_filter(SETTINGS, people, people)
    spam = [letter for letter in stream.later if letter.label == "spam" and letter.text.strip()][:count]
    raws = [mail(copied_fields(letter.fields), f"{letter.text}\n{salad(draw)}") for letter in spam]
    return await probabilities_of(by_people, raws)
