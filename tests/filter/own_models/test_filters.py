"""What own models do to checks and lessons."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from redis.asyncio import Redis

from nbstream.filter import FeedbackOutcome, OwnModelUse
from nbstream.filter.own_models.filters import MAX_MODELS_OF_A_MESSAGE
from nbstream.mail.message import Message
from nbstream.policy.envelope import MAX_ADDRESS_LENGTH
from nbstream.store.cancellation import cancel_and_wait
from nbstream.store.model.model import Model
from tests.harness.own_model_site import ANN, BOB, Site, open_site, own_model

EVE = "eve@other.example"


def news(number: int, sender: str = "news@shop.example") -> Message:
    text = f"From: {sender}\nSubject: offers of week {number}\n\nAll the bargains of our shop, number {number}\n"
    return Message.parse(text.encode())


def letter(number: int) -> Message:
    return Message.parse(f"From: eve@home.example\nSubject: dinner\n\nShall we meet on day {number}?\n".encode())


async def teach_common(site: Site) -> None:
    for number in range(6):
        await site.common.learn(news(number), "spam", "test")
        await site.common.learn(letter(number), "ham", "test")


async def test_an_empty_own_model_gives_the_common_score_to_the_last_bit(client: Redis) -> None:
    async with open_site(client) as site:
        await teach_common(site)
        own = await site.filter_of(ANN)

        check, common = await own.check(news(99)), await site.common.check(news(99))

        assert (check.score, check.probability, check.verdict) == (
            common.score,
            common.probability,
            common.verdict,
        )
        assert list(check.clues) == list(common.clues)
        assert check.own is OwnModelUse.NONE


async def test_what_a_user_teaches_is_believed_for_him_and_for_nobody_else(client: Redis) -> None:
    async with open_site(client) as site:
        await teach_common(site)
        before = await site.common.check(news(99))
        teacher = await site.filters.for_user(ANN)

        for number in range(10, 13):
            await teacher.learn(news(number), "ham", "test", f"user {ANN}")

        anns, bobs = (
            await (await site.filter_of(ANN)).check(news(99)),
            await (await site.filter_of(BOB)).check(news(99)),
        )
        assert anns.probability < 0.5 < before.probability
        assert anns.own is OwnModelUse.USED
        assert bobs.score == before.score
        assert (await site.common.check(news(99))).score == before.score


async def test_what_was_taught_and_taken_back_leaves_nothing(client: Redis) -> None:
    async with open_site(client) as site:
        await teach_common(site)
        before = await (await site.filter_of(ANN)).check(news(99))
        teacher = await site.filters.for_user(ANN)
        for number in range(3):
            await teacher.learn(news(number), "ham", "test")
            await teacher.learn(letter(number), "spam", "test")
        await teacher.learn(letter(0), "ham", "test")
        for number in range(3):
            assert (await teacher.unlearn(news(number), "test")).outcome is FeedbackOutcome.UNLEARNED
            await teacher.unlearn(letter(number), "test")

        after = await (await site.filter_of(ANN)).check(news(99))

        assert (after.score, after.probability) == (before.score, before.probability)
        model = own_model(client, "example.org/ann")
        assert len(await model.counts()) == 0
        assert not any((await model.totals()).messages)


async def test_the_level_of_a_domain_speaks_for_its_users(client: Redis) -> None:
    async with open_site(client) as site:
        await teach_common(site)
        before = await (await site.filter_of(ANN)).check(news(99))
        domain = await site.models.load_for_lesson("example.org")
        (bob,) = await site.filters.for_recipients([BOB])
        teacher = site.filters._filter("example.org", [domain])
        for number in range(10, 13):
            await teacher.learn(news(number), "ham", "test")

        after = await bob.check(news(99))

        assert after.probability < before.probability
        assert after.own is OwnModelUse.USED


async def test_another_process_follows_what_is_taught(client: Redis) -> None:
    async with open_site(client) as site, open_site(client) as other:
        await teach_common(site)
        watching = await other.models.load("example.org/ann")
        teacher = await site.filters.for_user(ANN)

        lesson = await teacher.learn(news(1), "ham", "test")

        await watching.wait_until_applied((await own_model(client, "example.org/ann").position()).change.stream_id)
        check = await (await other.filter_of(ANN)).check(news(1))
        assert check.score == lesson.after.score


async def test_an_own_model_that_cannot_be_loaded_in_time_leaves_the_common_verdict(client: Redis) -> None:
    async with open_site(client, follows=False) as site:
        await teach_common(site)
        late = replace(site.filters, wait_seconds=0.0)

        (own,) = await late.for_recipients([ANN])

        check, common = await own.check(news(99)), await site.common.check(news(99))
        assert check.own is OwnModelUse.UNAVAILABLE
        assert check.score == common.score


async def test_very_many_users_of_one_message_are_checked_by_the_common_model(client: Redis) -> None:
    async with open_site(client) as site:
        addresses = [f"user{number}@example.org" for number in range(MAX_MODELS_OF_A_MESSAGE + 10)]

        filters = await site.filters.for_recipients(addresses)

        own_models = [own.own_model for own in filters]
        assert own_models[0] == "example.org/user0"
        assert own_models.count("?") == 10


async def test_what_is_too_long_for_an_address_has_no_own_model(client: Redis) -> None:
    longest = "a" * (MAX_ADDRESS_LENGTH - len("@example.org")) + "@example.org"
    async with open_site(client) as site:
        own, common = await site.filters.for_recipients([longest, f"a{longest}"])

        assert own.own_model == "example.org/" + longest.partition("@")[0]
        assert common is await site.filters.for_user(f"a{longest}") is site.common


async def test_a_message_with_very_many_recipients_lets_other_work_go_on(client: Redis) -> None:
    async with open_site(client) as site:
        addresses = [f"user{number}@other.example" for number in range(2_000)]
        turns = 0

        async def count_turns() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        counting = asyncio.create_task(count_turns())
        filters = await site.filters.for_recipients(addresses)
        await cancel_and_wait(counting)

        assert filters == [site.common] * len(addresses)
        assert turns >= 3


async def test_a_fault_in_an_own_model_leaves_the_common_verdict(
    client: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(model: Model, **_: object) -> Model:
        raise RuntimeError("a fault")

    async with open_site(client, follows=False) as site:
        await teach_common(site)
        monkeypatch.setattr(Model, "open", fail)

        filters = await site.filters.for_recipients([ANN, EVE])

        check = await filters[0].check(news(99))
        assert check.own is OwnModelUse.UNAVAILABLE
        assert check.score == (await filters[1].check(news(99))).score
