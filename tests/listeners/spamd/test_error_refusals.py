"""The answer to a lesson that failed."""

from __future__ import annotations

import pytest

from nbstream.errors import (
    CountsFull,
    RelayUnavailable,
    StoreForbids,
    StoreIncompatible,
    StoreUnavailable,
)
from nbstream.listeners.spamd.listener import lesson_refusal

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
