"""The answers of the HTTP listener to errors: one table from the error's class to status and detail.

Rules: a detail names no host, path, key or exception.
"""

from __future__ import annotations

from collections.abc import Mapping

from nbstream import errors
from nbstream.errors import NbstreamError, table_row
from nbstream.wire.api_v1 import HttpProblem

_TEMPORARY_FAILURE = HttpProblem(503, "Temporary failure, please try again later")

ERROR_PROBLEMS: Mapping[type[NbstreamError], HttpProblem] = {
    errors.StoreUnavailable: HttpProblem(503, "Learning is not possible now, please try again later"),
    errors.CountsFull: HttpProblem(
        503, "Learning is not possible until this has been seen to, please try again later"
    ),
    errors.CheckFailed: _TEMPORARY_FAILURE,
    errors.StoreIncompatible: _TEMPORARY_FAILURE,
    # No request meets the following.
    errors.CannotStart: _TEMPORARY_FAILURE,
    errors.ConfigError: _TEMPORARY_FAILURE,
    errors.DaemonRunning: _TEMPORARY_FAILURE,
    errors.FeedbackRefused: _TEMPORARY_FAILURE,
    errors.InputError: _TEMPORARY_FAILURE,
    errors.NotReleased: _TEMPORARY_FAILURE,
    errors.NotRunning: _TEMPORARY_FAILURE,
    errors.OutputFailed: _TEMPORARY_FAILURE,
    errors.ReaderProcessFailed: _TEMPORARY_FAILURE,
    errors.RelayRefused: _TEMPORARY_FAILURE,
    errors.RelayUnavailable: _TEMPORARY_FAILURE,
    errors.WorkerFailed: _TEMPORARY_FAILURE,
    NbstreamError: _TEMPORARY_FAILURE,
}
"""A class without a row has that of its parent."""


def error_problem(error: NbstreamError) -> HttpProblem:
    """Return the problem that answers a request which ended with ``error``."""
    return table_row(ERROR_PROBLEMS, type(error))
