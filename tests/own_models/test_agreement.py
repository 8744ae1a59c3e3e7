"""What users teach everybody: nothing, until enough of them call the same mailing the same."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import pytest
from redis.asyncio import Redis

from nbstream.filter import Lesson, LessonOutcome
from nbstream.mail.message import Message
from nbstream.own_models.agreement import SOURCE, Agreement, AgreementKeys, AgreementOptions
from nbstream.policy.lesson_source import LessonSource
from nbstream.store.model.model import Model
from tests.filter.filters import labelled
from tests.own_models.site import Site, open_site

USERS = 6  # that have to agree
WARES = ["shoes", "coats", "hats", "gloves", "scarves", "boots", "shirts", "belts"]
TEXT = "All the bargains of our shop this week: " + " ".join(
    f"{ware}{size}" for ware in WARES for size in "abcdefgh"
)


def copy_for(user: int, text: str = TEXT, sender: str = "news@shop.example") -> Message:
    """The copy of one mailing that a user got: it has words that no other copy has."""
    return Message.parse(
        f"From: {sender}\nTo: user{user}@example.org\nSubject: offers\nMessage-ID: <{user}@shop.example>\n\n"
        f"{text}\nhttp://shop.example/leave/secretlink{user}\n".encode()
    )


def letter(user: int) -> Message:
    return Message.parse(f"From: eve{user}@home.example\nSubject: dinner\n\nShall we meet on {user}?\n".encode())


@dataclass(frozen=True)
class Voters:
    """Users of one process who teach."""

    site: Site
    agreement: Agreement
    counted: list[tuple[str, str]]

    async def say(self, user: int | str, label: str | None, message: Message | None = None) -> Lesson:
        """The user calls the message so, by default his copy of the mailing; None takes it back."""
        address = f"user{user}@example.org"
        teacher = await self.site.filters.for_teacher(address)
        message = message or copy_for(int(user))
        if label is None:
            return await teacher.unlearn(message, "http", address)
        return await teacher.learn(message, label, "http", address)

    async def say_all(self, label: str | None, *users: int) -> None:
        for user in users:
            await self.say(user, label)

    async def learned(self) -> dict[str, int]:
        """How many messages the common model has learned of each class."""
        messages = (await self.model.totals()).messages
        return {"ham": messages[0], "spam": messages[1]}

    async def tokens(self) -> set[bytes]:
        return set((await self.model.counts()).tokens())

    @property
    def model(self) -> Model:
        model = self.site.common.parts.model
        assert isinstance(model, Model)
        return model


@asynccontextmanager
async def open_voters(client: Redis, users: int | None = USERS) -> AsyncIterator[Voters]:
    await client.set(AgreementKeys("test").secret, b"s" * 32)  # else a copy in fifty is none, by chance
    async with open_site(client) as site:
        counted: list[tuple[str, str]] = []
        options = AgreementOptions(users, 3600)
        agreement = Agreement(client, "test", site.common, options, lambda *count: counted.append(count))
        filters = replace(site.filters, agreement=agreement)
        yield Voters(replace(site, filters=filters), agreement, counted)


@pytest.mark.parametrize("label", ["ham", "spam"])
async def test_everybody_learns_once_what_enough_users_agree_on(client: Redis, label: str) -> None:
    async with open_voters(client) as voters:
        await voters.say_all(label, *range(1, USERS))
        assert sum((await voters.learned()).values()) == 0

        await voters.say_all(label, *range(USERS, 20))

        assert (await voters.learned())[label] == 1
        assert sum((await voters.learned()).values()) == 1
        assert voters.counted == [(label, "learned")]


async def test_what_only_one_copy_has_never_gets_into_the_common_model(client: Redis) -> None:
    async with open_voters(client) as voters:
        await voters.say_all("spam", *range(1, 10))

        tokens = await voters.tokens()

        assert b"body:bargains" in tokens
        assert not [token for token in tokens if b"secretlink" in token or b"user" in token]


async def test_the_common_history_names_no_user(client: Redis) -> None:
    async with open_voters(client) as voters:
        await voters.say_all("spam", *range(1, USERS + 1))

        entry = await voters.model.entry(copy_for(1).key)

        assert entry
        assert (entry.source, entry.actor) == (SOURCE, "")
        common = await client.xrange(voters.model.keys.history)
        assert common
        assert b"example.org" not in repr(common).encode()
        assert not [key for key in await client.keys("*:agreement:*") if b"example.org" in key]


async def test_five_of_a_hundred_accounts_move_nobody_elses_verdict(client: Redis) -> None:
    async with open_voters(client) as voters:
        await voters.say_all("spam", *range(10, 10 + USERS))
        before = await voters.site.common.check(copy_for(99))
        other = await voters.site.common.check(letter(99))

        for attacker in range(1, USERS):
            for number in range(3):
                await voters.say(attacker, "ham", copy_for(100 * attacker + number))
                await voters.say(attacker, "spam", letter(number))

        after = await voters.site.common.check(copy_for(99))
        assert (after.score, after.probability) == (before.score, before.probability)
        assert (await voters.site.common.check(letter(99))).score == other.score


async def test_one_of_those_who_agree_teaches_nothing_of_his_own(client: Redis) -> None:
    async with open_voters(client) as voters:
        await voters.say_all("ham", *range(1, USERS))

        await voters.say(USERS, "ham", copy_for(USERS, f"{TEXT} casino jackpot", "win@casino.example"))

        tokens = await voters.tokens()
        assert b"body:bargains" in tokens
        assert not [token for token in tokens if b"casino" in token]


async def test_a_user_counts_once_whatever_he_teaches_and_however_he_is_called(client: Redis) -> None:
    async with open_voters(client) as voters:
        for number in range(2 * USERS):
            await voters.say(1, "spam", copy_for(number))
            await voters.say(f"1+list{number}", "spam", copy_for(100 + number))

        assert await voters.tokens() == set()


async def test_messages_that_are_no_copies_are_counted_apart(client: Redis) -> None:
    async with open_voters(client) as voters:
        for user in range(2 * USERS):
            await voters.say(user, "spam", letter(user))

        assert await voters.tokens() == set()


async def test_a_message_without_words_is_the_same_by_its_key(client: Redis) -> None:
    async with open_voters(client) as voters:
        for user in range(USERS):
            await voters.say(user, "spam", letter(0))

        assert (await voters.learned())["spam"] == 1


async def test_what_is_taken_back_leaves_nothing_in_the_common_model(client: Redis) -> None:
    async with open_voters(client) as voters:
        await voters.say_all("spam", *range(1, USERS + 3))
        await voters.say_all(None, 1, 2)
        assert (await voters.learned())["spam"] == 1

        await voters.say_all(None, 3)

        assert await voters.tokens() == set()
        assert sum((await voters.learned()).values()) == 0
        assert not any((await voters.model.totals()).messages)
        assert ("spam", "unlearned") in voters.counted


async def test_users_who_change_their_minds_change_what_everybody_learns(client: Redis) -> None:
    async with open_voters(client) as voters:
        await voters.say_all("spam", *range(1, USERS + 1))
        await voters.say_all("ham", *range(1, USERS + 1))

        assert await voters.learned() == {"ham": 1, "spam": 0}


async def test_what_many_call_the_opposite_is_a_matter_of_taste(client: Redis) -> None:
    async with open_voters(client, 2) as voters:
        await voters.say_all("spam", 1, 2, 3)
        await voters.say_all("ham", 11, 12)

        assert await voters.tokens() == set()


@pytest.mark.parametrize(
    ("ham", "spam", "label"),
    [(6, 0, "ham"), (5, 0, None), (5, 6, "spam"), (6, 6, None), (6, 60, None), (6, 61, "spam"), (61, 6, "ham")],
)
def test_fewer_than_enough_or_a_tenth_do_not_count(ham: int, spam: int, label: str | None) -> None:
    assert AgreementOptions(6, 1).agreed_label([ham, spam]) == label
    assert AgreementOptions(None, 1).agreed_label([ham, spam]) is None


async def test_what_the_administrator_teaches_stays(client: Redis) -> None:
    async with open_voters(client) as voters:
        await voters.site.common.learn(copy_for(1), "ham", "cli")

        await voters.say_all("spam", *range(1, 2 * USERS))

        assert await voters.learned() == {"ham": 1, "spam": 0}


async def test_bulk_lessons_of_an_own_model_do_not_count(client: Redis) -> None:
    async def message(user: int) -> AsyncIterator[Message]:
        yield copy_for(user)

    async with open_voters(client) as voters:
        for user in range(2 * USERS):
            teacher = await voters.site.filters.for_teacher(f"user{user}@example.org")
            await teacher.learn_many(labelled(message(user), "spam"), LessonSource("cli"), lambda _: None)

        assert await voters.tokens() == set()


async def test_a_failure_never_fails_the_lesson_of_the_user_and_is_made_good(client: Redis) -> None:
    async with open_voters(client) as voters:
        await voters.say_all("spam", *range(1, USERS))
        votes = await client.keys("*:agreement:votes:*")
        kept = await client.dump(votes[0])
        await client.set(votes[0], "no votes")

        lesson = await voters.say(USERS, "spam")

        assert lesson.outcome is LessonOutcome.LEARNED
        assert voters.counted == [("spam", "failed")]
        assert kept
        await client.restore(votes[0], 0, kept, replace=True)
        await voters.say(USERS, "spam")
        assert (await voters.learned())["spam"] == 1


async def test_two_processes_at_the_same_moment_teach_once_and_take_back_once(client: Redis) -> None:
    async with open_voters(client) as one, open_voters(client) as other:
        processes = [one, other]
        users = range(1, 3 * USERS)

        await asyncio.gather(*(processes[user % 2].say(user, "spam") for user in users))
        assert (await one.learned())["spam"] == 1
        await asyncio.gather(*(processes[user % 2].say(user, None) for user in users))

        assert await one.tokens() == set()
        assert sum((await one.learned()).values()) == 0


async def test_a_user_is_forgotten_with_what_needed_him(client: Redis) -> None:
    async with open_voters(client) as voters:
        await voters.say_all("spam", *range(1, USERS + 1))

        assert await voters.agreement.forget_user("user1@example.org") == 1

        assert await voters.tokens() == set()
        assert await voters.agreement.forget_user("user1@example.org") == 0
        await voters.say_all("spam", USERS + 1)
        assert (await voters.learned())["spam"] == 1


async def test_what_enough_others_have_stays_when_a_user_is_forgotten(client: Redis) -> None:
    async with open_voters(client) as voters:
        for user in range(USERS + 1):
            extra = " and free ice cream" if user < USERS else ""
            await voters.say(user, "spam", copy_for(user, TEXT + extra))
        assert b"body:cream" in await voters.tokens()

        await voters.agreement.forget_user("user0@example.org")

        tokens = await voters.tokens()
        assert b"body:cream" not in tokens
        assert b"body:bargains" in tokens


async def test_votes_expire(client: Redis) -> None:
    async with open_voters(client) as voters:
        await voters.say(1, "spam")

        keys = set(await client.keys("*:agreement:*")) - {AgreementKeys("test").secret.encode()}
        assert len(keys) == 8
        assert all([await client.ttl(key) > 0 for key in keys])
