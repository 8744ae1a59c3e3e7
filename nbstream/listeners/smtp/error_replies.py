"""The reply to an SMTP client when an error occurs: one table from the error's class to the reply.

Rules: a reply names no host, path, key or exception. 4xx where the client should try again; the mail stays with
it until then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from nbstream import errors
from nbstream.errors import NbstreamError, table_row
from nbstream.wire.smtp_reply import SmtpReply

TEMPORARY_FAILURE = SmtpReply(451, "4.3.0 Temporary failure, please try again later")
RELAY_UNAVAILABLE = SmtpReply(451, "4.4.1 The next mail server cannot be reached now, please try again later")
_STORE_UNAVAILABLE = SmtpReply(451, "4.3.0 Learning is not possible now, please try again later")
_MESSAGE_LOOPS = SmtpReply(554, "5.4.6 Too many hops: this message has more than 50 Received fields")
_COUNTS_FULL = SmtpReply(451, "4.3.0 Learning is not possible until this has been seen to, please try again later")


def _next_hop_reply(error: NbstreamError) -> SmtpReply:
    assert isinstance(error, errors.RelayRefused)
    return SmtpReply(error.code, error.text)


ERROR_REPLIES: Mapping[type[NbstreamError], SmtpReply | Callable[[NbstreamError], SmtpReply]] = {
    errors.StoreUnavailable: _STORE_UNAVAILABLE,
    errors.CountsFull: _COUNTS_FULL,
    errors.FeedbackRefused: lambda error: SmtpReply(550, f"5.6.0 {error}"),
    errors.FeedbackTooLarge: lambda error: SmtpReply(552, f"5.3.4 {error}"),
    errors.RelayUnavailable: RELAY_UNAVAILABLE,
    errors.RelayRefused: _next_hop_reply,
    errors.CheckFailed: TEMPORARY_FAILURE,
    errors.MessageLoops: _MESSAGE_LOOPS,
    errors.StoreIncompatible: TEMPORARY_FAILURE,
    # No session meets the following; the client could do nothing about any of them but try again.
    errors.CannotStart: TEMPORARY_FAILURE,
    errors.ConfigError: TEMPORARY_FAILURE,
    errors.DaemonRunning: TEMPORARY_FAILURE,
    errors.InputError: TEMPORARY_FAILURE,
    errors.NotReleased: TEMPORARY_FAILURE,
    errors.NotRunning: TEMPORARY_FAILURE,
    errors.OutputFailed: TEMPORARY_FAILURE,
    errors.ReaderProcessFailed: TEMPORARY_FAILURE,
    errors.WorkerFailed: TEMPORARY_FAILURE,
    NbstreamError: TEMPORARY_FAILURE,
}
"""A reply, or a function that makes it of the error. A class without a row has that of its parent."""


def error_reply(error: NbstreamError) -> SmtpReply:
    """Return the reply to a command that ended with ``error``."""
    row = table_row(ERROR_REPLIES, type(error))
    return row if isinstance(row, SmtpReply) else row(error)
