"""The answers of the stream listener to errors: one table from the error's class to the text.

Rules: a text names no host, path, key or exception.
"""

from __future__ import annotations

from collections.abc import Mapping

from nbstream import errors
from nbstream.errors import NbstreamError, table_row
from nbstream.listeners.request_errors import is_request_error

_TEMPORARY_FAILURE = "Temporary failure, please try again later"
_PERMANENT_FAILURE = "This failed, the log says why"

ERROR_TEXTS: Mapping[type[NbstreamError], str] = {
    errors.CountsFull: "Learning is not possible until this has been seen to, please try again later",
    errors.CheckFailed: _TEMPORARY_FAILURE,
    errors.StoreIncompatible: _TEMPORARY_FAILURE,
    # An entry waits for Redis and is not answered before: this text is not sent while that holds.
    errors.StoreUnavailable: "Learning is not possible now, please try again later",
}
"""A row for each of ``REQUEST_ERRORS``. A class without a row has that of its parent."""


def error_text(error: NbstreamError) -> str:
    """Return the text that answers an entry which ended with ``error``.

    An error that no entry should end with has no row: its text says to try again only if it is temporary.
    """
    if is_request_error(error):
        return table_row(ERROR_TEXTS, type(error))
    return _TEMPORARY_FAILURE if error.temporary else _PERMANENT_FAILURE
