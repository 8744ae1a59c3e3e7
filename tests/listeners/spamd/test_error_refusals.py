"""The answer to a lesson that failed."""

from __future__ import annotations

import pytest

from nbstream.errors import (
    ConfigError,
    CountsFull,
    FeedbackRefused,
    NbstreamError,
    RelayUnavailable,
    StoreForbids,
    StoreIncompatible,
    StoreUnavailable,
)
from nbstream.listeners.spamd.handler import lesson_refusal

PUT_OFF = b"SPAMD/1.0 75 Learning is not possible now, please try again later\r\n"


@pytest.mark.parametrize(
    "error",
    [
        StoreUnavailable("x"),
        StoreForbids("x"),
        StoreIncompatible("x"),
        CountsFull("x"),
        RelayUnavailable("x"),
        ZeroDivisionError(),
    ],
)
def test_errors_and_faults_put_the_lesson_off(error: Exception) -> None:
    assert lesson_refusal(error).render() == PUT_OFF


@pytest.mark.parametrize("kind", [ConfigError, FeedbackRefused])
def test_a_permanent_error_that_no_request_should_meet_is_permanent(kind: type[NbstreamError]) -> None:
    assert lesson_refusal(kind("x")).render() == b"SPAMD/1.0 70 This failed, the log says why\r\n"
