"""The problem that answers each error."""

from __future__ import annotations

import pytest

from nbstream.errors import CountsFull, NbstreamError, StoreForbids, StoreIncompatible, StoreUnavailable
from nbstream.server.api_json import HttpProblem
from nbstream.server.http.responses import ERROR_PROBLEMS, error_problem
from nbstream.server.message_service import REQUEST_ERRORS


def test_every_error_that_a_request_may_end_with_has_its_response() -> None:
    assert set(ERROR_PROBLEMS) == set(REQUEST_ERRORS)


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
