"""The reply to an SMTP client for each error."""

from __future__ import annotations

import pytest

from nbstream.errors import (
    CheckFailed,
    CountsFull,
    FeedbackRefused,
    FeedbackTooLarge,
    NbstreamError,
    RelayRefused,
    RelayUnavailable,
    StoreRefuses,
)
from nbstream.server.smtp_replies import ERROR_REPLIES, error_reply
from tests.harness.error_tables import classes_without_row, error_classes, example

SECRET = "redis.internal:6379"


def test_every_error_has_its_reply() -> None:
    assert classes_without_row(ERROR_REPLIES) == []


@pytest.mark.parametrize(
    ("error", "reply"),
    [
        (NbstreamError("x"), "451 4.3.0 Temporary failure, please try again later"),
        (CheckFailed("x"), "451 4.3.0 Temporary failure, please try again later"),
        (StoreRefuses("x"), "451 4.3.0 Learning is not possible now, please try again later"),
        (
            CountsFull("x"),
            "451 4.3.0 Learning is not possible until this has been seen to, please try again later",
        ),
        (RelayUnavailable("x"), "451 4.4.1 The next mail server cannot be reached now, please try again later"),
        (RelayRefused(550, "5.1.1 No\n5.1.1 such user"), "550-5.1.1 No\r\n550 5.1.1 such user"),
        (FeedbackRefused("Nothing to learn"), "550 5.6.0 Nothing to learn"),
        (FeedbackTooLarge("Too many"), "552 5.3.4 Too many"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, NbstreamError) else "",
)
def test_the_reply_to_an_error(error: NbstreamError, reply: str) -> None:
    assert str(error_reply(error)) == reply


@pytest.mark.parametrize("kind", [kind for kind in error_classes() if kind is not RelayRefused])
def test_only_feedback_gets_the_text_of_its_error(kind: type[NbstreamError]) -> None:
    assert (SECRET in str(error_reply(example(kind, SECRET)))) == issubclass(kind, FeedbackRefused)
