"""The answers of the stream listener to errors: one table from the error's class to the text.

Rules: a text names no host, path, key or exception.
"""

from __future__ import annotations

from collections.abc import Mapping

from nbstream import errors
from nbstream.errors import NbstreamError, table_row

_TEMPORARY_FAILURE = "Temporary failure, please try again later"

ERROR_TEXTS: Mapping[type[NbstreamError], str] = {
    errors.CountsFull: "Learning is not possible until this has been seen to, please try again later",
    errors.CheckFailed: _TEMPORARY_FAILURE,
    errors.StoreIncompatible: _TEMPORARY_FAILURE,
    # An entry waits for Redis and is not answered before: this text is not sent while that holds.
    errors.StoreUnavailable: "Learning is not possible now, please try again later",
    # No entry meets the following.
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


def error_text(error: NbstreamError) -> str:
    """Return the text that answers an entry which ended with ``error``."""
    return table_row(ERROR_TEXTS, type(error))
