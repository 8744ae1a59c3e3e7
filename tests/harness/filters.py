"""Filters over a model in Redis, for tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator
from dataclasses import replace
from typing import Any, cast

from redis.asyncio import Redis

from nbstream.bayes.calibration import Calibration
from nbstream.bayes.classifier import Classifier
from nbstream.filter import (
    CheckQueue,
    Filter,
    FilterObserver,
    FilterParts,
    FilterPolicy,
    LabelledMessage,
    LessonMessage,
)
from nbstream.filter.message_counts import LessonStore
from nbstream.mail.message import Message
from nbstream.policy.thresholds import ThresholdPolicy
from nbstream.store.follower.counts import FollowedCounts
from nbstream.store.model.model import Model
from nbstream.store.recent.checked_messages import RecentMessages
from nbstream.tokens.tokenizer import Tokenizer

PRIZE = Message.parse(b"From: win@example.com\nSubject: prize\n\nClaim your free prize now\n")


def make_filter(
    client: Redis,
    observer: FilterObserver | None = None,
    counts: FollowedCounts | None = None,
    checked_messages: RecentMessages | None = None,
    check_queue: CheckQueue | None = None,
) -> Filter:
    model = Model(client, "test", 3600)
    parts = FilterParts(
        tokenizer=Tokenizer(),
        classifier=Classifier(),
        calibration=Calibration(),
        model=model,
        counts=counts or model,
        observer=observer or FilterObserver(),
        checked_messages=checked_messages,
        check_queue=check_queue,
    )
    return Filter(parts, FilterPolicy(ThresholdPolicy(), {"spam": 1, "ham": 1}))


class Together:
    """Makes the first commits of several callers wait until all of them have come, so that they conflict."""

    def __init__(self, callers: int) -> None:
        self._barrier = asyncio.Barrier(callers)
        self._left = callers

    def model(self, model: LessonStore) -> LessonStore:
        """Return the same model, whose commits wait."""
        return cast("LessonStore", _ModelTogether(model, self))

    async def wait(self) -> None:
        if self._left:
            self._left -= 1
            await self._barrier.wait()


class _ModelTogether:
    def __init__(self, model: LessonStore, together: Together) -> None:
        self._model = model
        self._together = together

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    async def commit_lesson(self, *arguments: Any) -> Any:
        await self._together.wait()
        return await self._model.commit_lesson(*arguments)

    async def commit_lessons(self, *arguments: Any) -> Any:
        await self._together.wait()
        return await self._model.commit_lessons(*arguments)


def with_parts(spam_filter: Filter, **parts: Any) -> Filter:
    """The same filter, but with these parts; see ``FilterParts`` for their names."""
    return Filter(replace(spam_filter.parts, **parts), spam_filter.policy)


async def labelled(messages: AsyncIterable[LessonMessage], label: str | None) -> AsyncIterator[LabelledMessage]:
    """The same messages, all with this label."""
    async for message in messages:
        yield LabelledMessage(message, label)
