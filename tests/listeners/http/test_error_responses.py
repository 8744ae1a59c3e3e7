"""The problem that answers each error."""

from __future__ import annotations

import pytest

from nbstream.errors import CountsFull, NbstreamError, StoreForbids, StoreIncompatible, StoreUnavailable
from nbstream.listeners.http.error_responses import ERROR_PROBLEMS, error_problem
from nbstream.wire.api_v1 import HttpProblem
from tests.error_tables import classes_without_row


def test_every_error_has_its_response() -> None:
    assert classes_without_row(ERROR_PROBLEMS) == []


@pytest.mark.parametrize(
    ("error", "detail"),
    [
        (NbstreamError("x"), "Temporary failure, please try again later"),
        (StoreIncompatible("x"), "Temporary failure, please try again later"),
        (StoreUnavailable("x"), "Learning is not possible now, please try again later"),
        (StoreForbids("x"), "Learning is not possible now, please try again later"),
        (CountsFull("x"), "Learning is not possible until this has been seen to, please try again later"),
    ],
)
def test_the_response_to_an_error(error: NbstreamError, detail: str) -> None:
    assert error_problem(error) == HttpProblem(503, detail)
