"""The text that answers each error."""

from __future__ import annotations

import pytest

from nbstream.errors import CheckFailed, CountsFull, NbstreamError
from nbstream.listeners.stream.error_answers import ERROR_TEXTS, error_text
from tests.error_tables import classes_without_row


def test_every_error_has_its_answer() -> None:
    assert classes_without_row(ERROR_TEXTS) == []


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (CheckFailed("x"), "Temporary failure, please try again later"),
        (CountsFull("x"), "Learning is not possible until this has been seen to, please try again later"),
    ],
)
def test_the_answer_to_an_error(error: NbstreamError, text: str) -> None:
    assert error_text(error) == text
