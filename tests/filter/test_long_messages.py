"""Spam at the end of a message is seen, however much that a reader does not see stands before it."""

from __future__ import annotations

import asyncio
import random

import pytest
from redis.asyncio import Redis

from nbstream.filter import Filter
from nbstream.mail.message import Message
from nbstream.policy.verdict import Verdict
from tests.harness.filters import make_filter
from tests.harness.samples import samples

HEADER = b"From: news@other.example\r\nSubject: hello\r\nContent-Type: text/html\r\n\r\n"
HAM = b"<p>meeting lunch report friday</p>\r\n"
SPAM = b"<p>claim free prize winner cash offer limited pills casino bonus click urgent</p>\r\n"


@pytest.fixture
async def taught(client: Redis) -> Filter:
    """A filter that has learned 400 messages."""
    spam_filter = make_filter(client)
    learn = spam_filter.learn
    await asyncio.gather(*(learn(Message.parse(raw), label, "cli") for label, raw in samples(400)))
    return spam_filter


def words_of_ham(size: int) -> bytes:
    words = b"meeting lunch report friday project budget review family".split()
    return b" ".join(random.Random(5).choices(words, k=size // 8))


@pytest.mark.parametrize("size", [500_000, 1 << 20, 3 << 20])
async def test_a_comment_between_ham_and_spam_changes_nothing(taught: Filter, size: int) -> None:
    plain = await taught.check(Message.parse(HEADER + HAM + SPAM))
    hidden = await taught.check(Message.parse(HEADER + HAM + b"<!-- " + words_of_ham(size) + b" -->\r\n" + SPAM))

    assert plain.verdict == Verdict.SPAM
    assert hidden.full_probability >= hidden.thresholds.spam  # by its size it is unlike the spam that was learned
    assert (await taught.check(Message.parse(HEADER + HAM))).verdict == Verdict.HAM


async def test_what_was_learned_of_a_long_message_is_taken_back_exactly(client: Redis, taught: Filter) -> None:
    before = {key: await client.hgetall(key) async for key in client.scan_iter("*:counts:*")}
    message = Message.parse(HEADER + HAM + b"<!-- " + words_of_ham(2 << 20) + b" -->\r\n" + SPAM)

    await taught.learn(message, "spam", "cli")
    await taught.unlearn(message, "cli")

    assert {key: await client.hgetall(key) async for key in client.scan_iter("*:counts:*")} == before
