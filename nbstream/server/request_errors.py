"""Which errors may end a request to check or learn a message, and which are a fault in nbstream.

Rules: HTTP, spamd and stream have answers of their own to the errors that a request may end with. The listener
that meets any other error logs it with its traceback. Its answer says only whether to try again, by ``temporary``.
"""

from __future__ import annotations

from nbstream import errors

REQUEST_ERRORS: tuple[type[errors.NbstreamError], ...] = (
    errors.CheckFailed,
    errors.CountsFull,
    errors.StoreIncompatible,
    errors.StoreUnavailable,
)
"""A request may end with these and with the classes derived from them."""

UNEXPECTED_ERRORS: tuple[type[errors.NbstreamError], ...] = (
    errors.CannotStart,
    errors.ConfigError,
    errors.FeedbackRefused,
    errors.InputError,
    errors.MessageLoops,
    errors.NotReleased,
    errors.NotRunning,
    errors.OutputFailed,
    errors.ReaderProcessFailed,
    errors.RelayRefused,
    errors.RelayUnavailable,
    errors.WorkerFailed,
)
"""No request ends with these: they belong to SMTP, to the start of the daemon, or to commands."""


def is_request_error(error: Exception) -> bool:
    """Return whether a request may end with ``error``; otherwise it is a fault in nbstream."""
    return isinstance(error, REQUEST_ERRORS)
