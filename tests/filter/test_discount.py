"""Mail unlike learned spam, on a real Redis: it is unsure, and that is exact, explained and not learned."""

from __future__ import annotations

import pytest
from redis.asyncio import Redis

from nbstream.bayes.classifier import Classifier
from nbstream.bayes.novelty import CHECK_SUMS, NOVELTY_SUMS
from nbstream.cli.commands.explain import render_table
from nbstream.filter import Check, Filter
from nbstream.mail.message import Message
from nbstream.policy.verdict import UNLIKE_SPAM, Verdict
from nbstream.store.model.model import Model
from nbstream.tokens.private_tokens import PrivateTokenizer, TokenHasher
from nbstream.tokens.tokenizer import Tokenizer
from tests.filter.autolearn_site import taught_site
from tests.harness.filters import make_filter, with_parts
from tests.harness.native import native_library
from tests.harness.samples import samples

# The words are those of spam, and all else is new: another program wrote it, for another sender.
NEWS = b"""Return-Path: <bounce-7.ab@mail.shop.example>
Received: from out3.mail.shop.example (out3.mail.shop.example [192.0.2.7]) by mx.example.net
DKIM-Signature: v=1; a=rsa-sha256; d=shop.example; s=k1; b=AAAA
List-Id: <offers.shop.example>
MIME-Version: 1.0
X-Mailer: Mailer 7
From: "The Shop" <news@shop.example>
Subject: prize cash free
To: you@example.net
Reply-To: <answers+7@shop.example>
Message-ID: <0100@out3.mail.shop.example>
Content-Type: text/html; charset=utf-8
Content-Transfer-Encoding: quoted-printable

<p>prize cash free winner offer click prize money</p>
"""


@pytest.fixture
async def taught(client: Redis) -> Filter:
    """A filter that has learned 300 messages."""
    return await teach(make_filter(client))


async def teach(spam_filter: Filter) -> Filter:
    for label, raw in samples(300):
        await spam_filter.learn(Message.parse(raw), label, "test")
    return spam_filter


def facts_of(check: Check) -> tuple[object, ...]:
    return check.verdict, check.probability, check.full_probability, check.score, check.reason, check.discount


async def test_mail_unlike_learned_spam_is_unsure_and_says_why(taught: Filter) -> None:
    check = await taught.check(Message.parse(NEWS))

    assert check.verdict is Verdict.UNSURE
    assert check.is_discounted
    assert 0.5 <= check.probability < check.thresholds.spam <= check.full_probability
    assert UNLIKE_SPAM in check.reason
    text = "\n".join(render_table(check.explain(0.0)))
    assert "discount " in text
    assert "known from spam  " in text


async def test_what_is_known_of_novelty_is_taken_back_exactly(taught: Filter) -> None:
    before = (await taught.parts.counts.look_up(CHECK_SUMS))[0].tolist()
    message = Message.parse(NEWS)

    await taught.learn(message, "ham", "test")
    as_ham = (await taught.parts.counts.look_up(NOVELTY_SUMS))[0].tolist()
    await taught.learn(message, "spam", "test")
    as_spam = (await taught.parts.counts.look_up(NOVELTY_SUMS))[0].tolist()
    await taught.unlearn(message, "test")

    # The sums are those of the check before the first label, whatever is said of the message later.
    first = (await taught.parts.counts.look_up(NOVELTY_SUMS))[0].tolist()
    assert [ham - row[0] for (ham, _), row in zip(as_ham, first, strict=True)] == [
        spam - row[1] for (_, spam), row in zip(as_spam, first, strict=True)
    ]
    assert (await taught.parts.counts.look_up(CHECK_SUMS))[0].tolist() == before


async def test_both_engines_and_private_tokens_say_the_same(taught: Filter, client: Redis) -> None:
    library, mail = (
        native_library(),
        [Message.parse(raw) for _, raw in samples(20, seed=9)] + [Message.parse(NEWS)],
    )
    hasher = TokenHasher(b"k" * 32, library)
    native = with_parts(taught, classifier=Classifier(library))
    model, tokenizer = Model(client, "private", 3600), PrivateTokenizer(Tokenizer(), hasher)
    private = await teach(with_parts(taught, model=model, counts=model, tokenizer=tokenizer))

    for message in mail:
        facts = facts_of(await taught.check(message))
        assert facts_of(await native.check(message)) == facts
        assert facts_of(await private.check(message)) == facts


async def test_it_is_not_learned_without_people(client: Redis) -> None:
    site = await taught_site(client)
    message = Message.parse(NEWS)
    check = await site.filter.check(message)
    await site.learner.learn_queued()

    assert check.full_probability >= 0.99 > check.probability
    assert await site.model.entry(message.key) is None
