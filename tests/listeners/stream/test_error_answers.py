"""The text that answers each error."""

from __future__ import annotations

import pytest

from nbstream.errors import CheckFailed, CountsFull, NbstreamError
from nbstream.listeners.stream.listener import ERROR_TEXTS, error_text
from nbstream.server.message_service import REQUEST_ERRORS


def test_every_error_that_an_entry_may_end_with_has_its_answer() -> None:
    assert set(ERROR_TEXTS) == set(REQUEST_ERRORS)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (CheckFailed("x"), "Temporary failure, please try again later"),
        (CountsFull("x"), "Learning is not possible until this has been seen to, please try again later"),
    ],
)
def test_the_answer_to_an_error(error: NbstreamError, text: str) -> None:
    assert error_text(error) == text
