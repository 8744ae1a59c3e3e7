"""Implicit ham, on a real Redis: it counts as ham where people teach none, until they do, and never against
them."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from redis.asyncio import Redis

from nbstream.bayes.columns import CLASSES
from nbstream.filter import FeedbackOutcome, Filter, ImplicitHamLearner, ImplicitHamWalk
from nbstream.filter.own_models.index import OwnModelKeys
from nbstream.mail.message import Message
from nbstream.policy.verdict import Verdict
from nbstream.store.model.model import Model
from nbstream.store.recent.checked_messages import CheckedMessage
from tests.filter.autolearn_site import EMPTY, NEEDED, SURE, AutolearnSite, letters_of, make_site
from tests.harness.algebra import live_entries, stored, summed

HAM_NEEDED = NEEDED["ham"]


class SpamOnlySite:
    """A site whose people have moved thirty spam and have never said what ham is."""

    def __init__(self, site: AutolearnSite) -> None:
        self.site = site
        self.outcomes = Counter[str]()
        self.learner = ImplicitHamLearner(
            site.filter.parts, site.filter.policy, lambda _, outcome: self.outcomes.update([outcome])
        )

    @classmethod
    async def open(cls, client: Redis) -> SpamOnlySite:
        site = make_site(client)
        for raw in letters_of("spam", 30, seed=1):
            await site.filter.learn(Message.parse(raw), "spam", "test")
        return cls(site)

    async def keep(self, *raws: bytes) -> int:
        """Let these messages stay unmoved; how many of them are learned."""
        return sum([await self.learner.learn(await self.checked(raw)) for raw in raws])

    async def checked(self, raw: bytes) -> CheckedMessage:
        """The message as it is remembered."""
        check = await self.site.filter.check(Message.parse(raw))
        tokens = self.site.filter.parts.tokenizer.tokenize(Message.parse(raw)).tokens
        return CheckedMessage(check.id, tokens, check.probability, str(check.verdict))


async def test_with_implicit_ham_there_are_verdicts_where_people_teach_no_ham(client: Redis) -> None:
    kept = await SpamOnlySite.open(client)
    before = await stored(kept.site.model)
    states = []
    for raw in letters_of("ham", HAM_NEEDED):
        states.append(str((await kept.site.filter.check(Message.parse(raw))).state))
        await kept.keep(raw)

    ham, spam = [
        [await kept.site.filter.check(Message.parse(raw)) for raw in letters_of(label, 10, seed=9)]
        for label in CLASSES
    ]

    assert states[:2] == ["learning 20/40", "learning 21/40, 1 of them implicit ham"]
    assert {check.verdict for check in ham} == {Verdict.HAM}
    assert min(check.probability for check in spam) > max(check.probability for check in ham)
    assert {str(check.state) for check in (*ham, *spam)} == {"ready"}
    assert await stored(kept.site.model) == before
    assert await stored(kept.site.model, automatic=True) == await summed(kept.site.model, automatic=True)


async def test_what_a_sender_list_let_pass_is_no_implicit_ham(client: Redis) -> None:
    kept = await SpamOnlySite.open(client)
    message = await kept.checked(letters_of("ham", 1)[0])
    listed = CheckedMessage.unpack(message.key, message._replace(is_listed=True).pack())

    assert listed.is_listed
    assert listed.policy == message.policy
    assert not await kept.learner.learn(listed)
    assert await kept.learner.learn(CheckedMessage.unpack(message.key, message.pack()))


async def test_once_the_first_are_learned_mail_that_looks_like_spam_is_no_kept_ham(client: Redis) -> None:
    kept = await SpamOnlySite.open(client)
    unmoved_spam = [await kept.checked(raw) for raw in letters_of("spam", 5, seed=4)]
    await kept.keep(*letters_of("ham", HAM_NEEDED + 5))

    assert [await kept.learner.learn(message) for message in unmoved_spam] == [False] * 5
    assert kept.outcomes == {"kept": HAM_NEEDED + 5, "unsure": 5}


async def test_mail_that_a_verdict_sent_to_junk_was_not_kept(client: Redis) -> None:
    kept = await SpamOnlySite.open(client)
    message = (await kept.checked(letters_of("ham", 1)[0]))._replace(verdict="spam")

    assert not await kept.learner.learn(message)
    assert await stored(kept.site.model, automatic=True) == EMPTY


async def test_a_message_is_kept_once_and_not_where_a_person_labelled_it(client: Redis) -> None:
    kept = await SpamOnlySite.open(client)
    first, second = letters_of("ham", 2)
    await kept.site.filter.learn(Message.parse(second), "spam", "test")

    await kept.keep(first, first, second)

    assert kept.outcomes == {"kept": 1, "already": 1, "human": 1}
    assert set(await live_entries(kept.site.model, automatic=True)) == {Message.parse(first).key}


@pytest.mark.parametrize("label", CLASSES)
async def test_a_persons_label_takes_back_what_was_learned_of_implicit_ham(client: Redis, label: str) -> None:
    kept = await SpamOnlySite.open(client)
    (raw,) = letters_of("ham", 1)
    await kept.keep(raw)

    lesson = await kept.site.filter.learn(Message.parse(raw), label, "test")

    assert lesson.outcome is FeedbackOutcome.LEARNED
    assert await stored(kept.site.model, automatic=True) == EMPTY


async def test_implicit_ham_counts_until_people_have_taught_enough_ham_and_its_effect_is_bounded_then(
    client: Redis,
) -> None:
    kept = await SpamOnlySite.open(client)
    await kept.keep(*letters_of("ham", HAM_NEEDED + 5))
    for raw in letters_of("ham", HAM_NEEDED, seed=6):
        assert await kept.learner.is_needed()
        await kept.site.filter.learn(Message.parse(raw), "ham", "test")

    check = await kept.site.filter.check(Message.parse(letters_of("ham", 1, seed=9)[0]))

    assert not await kept.keep(letters_of("ham", 1, seed=3)[0])
    assert (check.state.learned["ham"], check.state.kept) == (HAM_NEEDED, 0)
    assert await kept.site.learned() == (HAM_NEEDED + 5, 0)


async def test_while_implicit_ham_counts_nothing_else_is_learned_without_people(client: Redis) -> None:
    kept = await SpamOnlySite.open(client)
    for raw in letters_of("ham", HAM_NEEDED - 1, seed=6):
        await kept.site.filter.learn(Message.parse(raw), "ham", "test")
    await kept.keep(*letters_of("ham", 2))
    before = await live_entries(kept.site.model, automatic=True)

    probabilities = await kept.site.check(*letters_of("spam", 10, seed=9), *letters_of("ham", 10, seed=9))

    assert max(probabilities) > SURE.spam  # a check is sure of some of them
    assert await live_entries(kept.site.model, automatic=True) == before


class Memory:
    """Remembered messages: one that cannot be read is None."""

    def __init__(self, messages: dict[float, CheckedMessage | None]) -> None:
        self.messages = messages
        self.asked: list[tuple[float, float, int]] = []

    async def oldest_between(
        self, after: float, until: float, count: int
    ) -> AsyncIterator[tuple[float, CheckedMessage | None]]:
        """As ``RecentMessages`` does."""
        self.asked.append((after, until, count))
        for at in sorted(at for at in self.messages if after < at <= until)[:count]:
            yield at, self.messages[at]


async def test_a_walk_learns_what_is_old_enough_and_goes_on_where_it_was(client: Redis) -> None:
    kept = await SpamOnlySite.open(client)
    raws = letters_of("ham", 5)
    memory = Memory({float(at): await kept.checked(raw) for at, raw in enumerate(raws, start=1)})
    memory.messages[2.0] = None
    now = [13.0]
    walk = ImplicitHamWalk(kept.learner, memory.oldest_between, 10.0, lambda: now[0])

    assert await walk.step() == 2  # the first and the third, since the second cannot be read
    now[0] = 14.0
    assert await walk.step() == 1

    assert [asked[:2] for asked in memory.asked] == [(0.0, 3.0), (3.0, 4.0)]
    assert set(await live_entries(kept.site.model, automatic=True)) == {
        Message.parse(raws[i]).key for i in (0, 2, 3)
    }


async def test_a_walk_is_bounded_and_two_walks_learn_each_message_once(client: Redis) -> None:
    kept = await SpamOnlySite.open(client)
    memory = Memory({float(at): await kept.checked(raw) for at, raw in enumerate(letters_of("ham", 130), start=1)})
    first, second = (ImplicitHamWalk(kept.learner, memory.oldest_between, 0.0, lambda: 200.0) for _ in range(2))

    assert [await first.step(), await second.step(), await first.step(), await second.step()] == [100, 0, 30, 0]


@pytest.mark.parametrize("label", ["spam", "ham"])
async def test_what_a_user_has_labelled_in_his_own_model_is_not_kept(client: Redis, label: str) -> None:
    kept = await SpamOnlySite.open(client)
    (raw, other, *_) = letters_of("ham", HAM_NEEDED)
    parts = kept.site.filter.parts
    own = Model(client, OwnModelKeys("test", "ann@example.org"), 3600)
    user = Filter(replace(parts, model=own, counts=own, parents=(parts.counts,)), kept.site.filter.policy)
    await user.learn(Message.parse(raw), label, "test")

    assert await kept.keep(raw, other) == 1
    assert kept.outcomes == {"human": 1, "kept": 1}
