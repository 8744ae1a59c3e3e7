"""The answers of the HTTP listener to errors: one table from the error's class to status and detail.

Rules: a detail names no host, path, key or exception.
"""

from __future__ import annotations

from collections.abc import Mapping

from nbstream import errors
from nbstream.errors import NbstreamError, table_row
from nbstream.listeners.request_errors import is_request_error
from nbstream.wire.api_v1 import HttpProblem

FAULT = HttpProblem(500, "this failed, the log says why")
"""The answer to a request that ended by a fault in nbstream."""

_TEMPORARY_FAILURE = HttpProblem(503, "Temporary failure, please try again later")

ERROR_PROBLEMS: Mapping[type[NbstreamError], HttpProblem] = {
    errors.StoreUnavailable: HttpProblem(503, "Learning is not possible now, please try again later"),
    errors.CountsFull: HttpProblem(
        503, "Learning is not possible until this has been seen to, please try again later"
    ),
    errors.CheckFailed: _TEMPORARY_FAILURE,
    errors.StoreIncompatible: _TEMPORARY_FAILURE,
}
"""A row for each of ``REQUEST_ERRORS``. A class without a row has that of its parent."""


def error_problem(error: NbstreamError) -> HttpProblem:
    """Return the problem that answers a request which ended with ``error``.

    An error that no request should end with has no row: it is a 503 if it is temporary, else a 500.
    """
    if is_request_error(error):
        return table_row(ERROR_PROBLEMS, type(error))
    return _TEMPORARY_FAILURE if error.temporary else FAULT
