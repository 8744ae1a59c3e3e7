"""Test, then train: what is scored with which knowledge, in memory as in Redis."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator

import pytest
from redis.asyncio import Redis

from nbstream.assembly.filter import make_filter, message_limits
from nbstream.config import MinLearnedSettings, ModelSettings, Settings
from nbstream.evaluation.run import (
    CachingTokenizer,
    EvaluationOptions,
    EvaluationResult,
    LessonCountingStore,
    evaluate,
)
from nbstream.evaluation.streams import LabelledContent
from nbstream.mail.message import Message
from nbstream.policy.verdict import Verdict
from nbstream.store.model.memory_model import MemoryModel
from nbstream.store.model.model import Model as StoredModel
from nbstream.store.model.temporary import temporary_model
from nbstream.tokens.tokenizer import Tokenizer
from tests.letters import letters

SETTINGS = Settings(model=ModelSettings(min_learned=MinLearnedSettings(spam=3, ham=3)))
IMMEDIATE = EvaluationOptions()


def stream(count: int) -> list[LabelledContent]:
    return [LabelledContent(label, raw) for label, raw in letters(count)]


async def measured(
    messages: Iterable[LabelledContent],
    params: EvaluationOptions = IMMEDIATE,
    model: MemoryModel | StoredModel | None = None,
) -> tuple[EvaluationResult, LessonCountingStore]:
    counts = model or MemoryModel()
    tally = LessonCountingStore(counts)
    spam_filter = make_filter(SETTINGS, tally, counts, make_tokenizer=CachingTokenizer)
    return await evaluate(spam_filter, messages, params, message_limits(SETTINGS)), tally


async def test_a_message_is_scored_before_its_label_is_learned() -> None:
    letter = stream(1)[0]

    result, tally = await measured([letter, letter])

    first, second = result.rows
    assert (first.score, first.verdict) == (0.0, Verdict.UNSURE)
    assert first.probability == pytest.approx(0.5)
    assert (second.score > 0) == (letter.label == "spam")
    assert second.score != 0.0
    assert tally.learned == 1  # the second time it is known already


async def test_a_delayed_label_is_known_to_the_message_behind_the_delay_and_not_before() -> None:
    letter = stream(1)[0]

    result, tally = await measured([letter] * 5, EvaluationOptions("delayed:2"))

    assert [row.score != 0.0 for row in result.rows] == [False, False, False, True, True]
    assert tally.learned == 1


async def test_without_labels_nothing_is_learned() -> None:
    result, tally = await measured(stream(10), EvaluationOptions("none"))

    assert {row.score for row in result.rows} == {0.0}
    assert (tally.learned, tally.tokens_per_message) == (0, None)


async def test_corrections_are_few_once_the_model_decides_and_errors_fewer_than_unsure_ones() -> None:
    _, everything = await measured(stream(150))
    _, unsure = await measured(stream(150), EvaluationOptions("unsure"))
    _, errors = await measured(stream(150), EvaluationOptions("errors"))

    assert 6 <= errors.learned <= unsure.learned < everything.learned == 150


async def test_noise_flips_that_share_of_what_is_learned_and_no_label_that_is_measured() -> None:
    messages = stream(200)
    model = MemoryModel()

    result, tally = await measured(messages, EvaluationOptions(label_noise=1.0), model)
    _, totals = await model.look_up([])

    assert [row.label for row in result.rows] == [each.label for each in messages]
    spams = sum(each.label == "spam" for each in messages)
    assert totals.messages == (spams, 200 - spams)
    assert tally.learned == 200


async def test_noise_is_that_of_its_seed() -> None:
    runs = [
        (await measured(stream(60), EvaluationOptions(label_noise=0.2, seed=seed)))[0].rows for seed in (1, 1, 2)
    ]

    assert runs[0] == runs[1]
    assert runs[0] != runs[2]


async def test_the_tally_counts_distinct_tokens_of_what_was_learned() -> None:
    texts = ["one two two", "one two three four"]
    distinct = [set(Tokenizer().tokenize(Message.from_text(text)).all) for text in texts]

    _, tally = await measured(
        [LabelledContent("ham", texts[0]), LabelledContent("spam", texts[1]), LabelledContent("ham", texts[0])]
    )

    assert {b"body:one", b"body:two"} <= distinct[0]
    assert tally.tokens_per_message == sum(map(len, distinct)) / 2


async def test_verdict_headers_from_outside_say_nothing() -> None:
    marks = {"spam": b"X-Spam-Flag: YES\n", "ham": b"X-Nbstream: ham\n"}
    marked = [LabelledContent(label, marks[label] + raw) for label, raw in letters(40)]

    assert (await measured(marked))[0].rows == (await measured(stream(40)))[0].rows


async def test_a_text_is_no_mail_even_where_it_looks_like_one() -> None:
    contents: dict[str, str | bytes] = {
        "ham": "Subject: lunch\n\nCome along",
        "spam": b"Subject: lunch\n\nCome along",
    }
    model = MemoryModel()
    await measured([LabelledContent(label, content) for label, content in contents.items()], model=model)

    rows, _ = await model.look_up([b"fields:none", b"body:subject", b"subject:lunch"])

    as_text, as_mail = (rows > 0).T.tolist()
    assert as_text == [True, True, False]
    assert as_mail == [False, False, True]


def with_second_thoughts(count: int) -> list[LabelledContent]:
    """Letters, some of which come again with the same label, and some with the other one."""
    messages = stream(count)
    again = [LabelledContent("ham" if each.label == "spam" else "spam", each.content) for each in messages[5:25:3]]
    return messages[:40] + messages[:10] + again + messages[40:] + messages[5:12]


@pytest.mark.parametrize(
    "params", [IMMEDIATE, EvaluationOptions("delayed:7"), EvaluationOptions("unsure", label_noise=0.1, seed=3)]
)
async def test_redis_gives_the_same_scores_to_the_last_bit(client: Redis, params: EvaluationOptions) -> None:
    messages = with_second_thoughts(60)

    in_memory, one = await measured(messages, params)
    async with temporary_model(client, "test", 3600) as model:
        in_redis, other = await measured(messages, params, model)

    assert in_redis.rows == in_memory.rows
    assert len({row.score for row in in_memory.rows}) > 50
    assert (one.learned, one.tokens) == (other.learned, other.tokens)
    assert one.learned > 10


async def test_it_can_be_cancelled_between_two_messages() -> None:
    seen = 0

    def endless() -> Iterator[LabelledContent]:
        nonlocal seen
        while True:
            seen += 1
            if seen == 3:
                task.cancel()
            yield LabelledContent("ham", "over and over")

    task = asyncio.create_task(measured(endless()))
    await asyncio.wait([task])

    assert task.cancelled()
    assert seen == 3
