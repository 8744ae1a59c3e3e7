"""Which checked messages people are asked about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from redis.asyncio import Redis

from nbstream.policy.fair_sample import FairSample
from nbstream.store.recent.checked_messages import RecentMessages
from nbstream.store.recent.message_rows import DRAWN_INDEX
from nbstream.store.recent.questions import AnsweredShare, Questions, find_questions
from nbstream.store.recent.row_search import RowFilter, RowSearch
from nbstream.store.settings import MemorySettings
from tests.store.recent.rows import KEYS
from tests.store.recent.test_checked_messages import DroppedMessages, checked_message, running

SAMPLE = FairSample("secret").with_share(0.2, 0.0)


async def remember(client: Redis, count: int, verdicts: Mapping[int, tuple[str, float]]) -> RowSearch:
    """Remember messages m0, m1 and so on: ham with a P(spam) of 0.001, but for those of ``verdicts``."""
    recent = RecentMessages(client, KEYS, MemorySettings(), DroppedMessages(), rows=True, sample=lambda: SAMPLE)
    async with running(recent):
        for number in range(count):
            verdict, probability = verdicts.get(number, ("ham", 0.001))
            recent.remember(replace(checked_message(number), verdict=verdict, probability=probability))
            if number % 50 == 49:
                await recent.wait_until_written()
        await recent.wait_until_written()
    return RowSearch(client, KEYS, 3600)


async def ask(search: RowSearch, labels: Mapping[str, str], count: int = 1000) -> Questions:
    async def find_labels(ids: Sequence[str]) -> Mapping[str, str]:
        return {key: labels[key] for key in ids if key in labels}

    return await find_questions(search, find_labels, count)


def drawn(count: int) -> list[str]:
    return [f"m{number}" for number in range(count) if SAMPLE.draws(f"m{number}", 1.0)]


async def test_all_drawn_messages_without_a_label_are_asked_about_the_oldest_first(client: Redis) -> None:
    search, keys = await remember(client, 120, {}), drawn(120)
    labels = dict.fromkeys(keys[1::2], "ham")

    questions = await ask(search, labels)

    assert [row.id for row in questions.drawn] == keys[::2]
    assert questions.answered == AnsweredShare(len(keys), len(labels))
    assert [row.id for row in (await ask(search, labels, count=3)).drawn] == keys[::2][:3]


async def test_the_share_of_answers_is_also_told_for_what_was_called_spam(client: Redis) -> None:
    keys = drawn(60)
    spam = {int(key[1:]): ("spam", 0.99) for key in keys[:4]}
    search = await remember(client, 60, spam)

    questions = await ask(search, {keys[0]: "spam", keys[-1]: "ham"})

    assert questions.answered == AnsweredShare(len(keys), 2)
    assert questions.answered_spam == AnsweredShare(4, 1)
    assert str(questions.answered_spam) == "1 of 4, 25 %"


async def test_of_the_others_the_unsure_ones_nearest_to_one_half_are_asked_about(client: Redis) -> None:
    others = [number for number in range(60) if f"m{number}" not in drawn(60)][:5]
    unsure = {number: ("unsure", p) for number, p in zip(others, (0.9, 0.52, 0.7, 0.5, 0.6), strict=True)}
    search = await remember(client, 60, unsure)

    questions = await ask(search, {f"m{others[3]}": "ham"}, count=3)

    assert [row.probability for row in questions.nearest] == [0.52, 0.6, 0.7]
    assert not {row.id for row in questions.nearest} & set(drawn(60))


async def test_the_index_of_what_was_drawn_is_forgotten_with_the_rows(client: Redis) -> None:
    recent = RecentMessages(
        client, KEYS, MemorySettings(messages=1), DroppedMessages(), rows=True, sample=lambda: SAMPLE
    )
    first, last = drawn(100)[0], next(f"m{n}" for n in range(100) if not SAMPLE.draws(f"m{n}", 1.0))
    async with running(recent):
        recent.remember(checked_message(int(first[1:])))
        await recent.wait_until_written()
        assert await client.zrange(KEYS.rows_by(DRAWN_INDEX), 0, -1) == [first.encode()]
        recent.remember(checked_message(int(last[1:])))
        await recent.wait_until_written()

    assert not await client.exists(KEYS.rows_by(DRAWN_INDEX))
    assert not (await RowSearch(client, KEYS, 3600).search(RowFilter(is_drawn=True))).rows


@pytest.mark.parametrize("share", [0, 3])
def test_a_share_of_nothing_has_no_percentage(share: int) -> None:
    assert str(AnsweredShare(0, 0)) == "0 of 0"
    assert str(AnsweredShare(4, share)) == f"{share} of 4, {25 * share} %"
