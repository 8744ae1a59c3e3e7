"""The answers of the spamd listener to errors: one table from the error's class to the EX_ code of sysexits.h.

Rules: every error is answered with 75, and then the client passes the mail on unmarked or defers it, by its own
configuration. The text beside the code depends on the command, and does not contain the cause.
"""

from __future__ import annotations

from collections.abc import Mapping

from nbstream import errors
from nbstream.errors import NbstreamError, table_row
from nbstream.wire.spamd import EX_TEMPFAIL

ERROR_CODES: Mapping[type[NbstreamError], int] = {
    errors.CheckFailed: EX_TEMPFAIL,
    errors.CountsFull: EX_TEMPFAIL,
    errors.StoreIncompatible: EX_TEMPFAIL,
    errors.StoreUnavailable: EX_TEMPFAIL,
    # No request meets the following.
    errors.CannotStart: EX_TEMPFAIL,
    errors.ConfigError: EX_TEMPFAIL,
    errors.DaemonRunning: EX_TEMPFAIL,
    errors.FeedbackRefused: EX_TEMPFAIL,
    errors.InputError: EX_TEMPFAIL,
    errors.NotReleased: EX_TEMPFAIL,
    errors.NotRunning: EX_TEMPFAIL,
    errors.OutputFailed: EX_TEMPFAIL,
    errors.ReaderProcessFailed: EX_TEMPFAIL,
    errors.RelayRefused: EX_TEMPFAIL,
    errors.RelayUnavailable: EX_TEMPFAIL,
    errors.WorkerFailed: EX_TEMPFAIL,
    NbstreamError: EX_TEMPFAIL,
}
"""A class without a row has that of its parent."""


def error_code(error: Exception) -> int:
    """Return the code that answers a request which ended with ``error``; a fault in nbstream is put off, too."""
    return table_row(ERROR_CODES, type(error)) if isinstance(error, NbstreamError) else EX_TEMPFAIL
