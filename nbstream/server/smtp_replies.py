"""The replies that an SMTP session gives by itself (status codes: RFC 3463), and one table of those to errors.

Rules: a reply names no host, path, key or exception. 4xx where the client should try again; the mail stays with
it until then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from nbstream import errors
from nbstream.delivery.next_hop import SmtpReply
from nbstream.errors import NbstreamError, table_row
from nbstream.policy.verdict import ActionKind

SYNTAX_EHLO = SmtpReply(501, "5.5.4 Syntax: EHLO hostname")
SYNTAX_MAIL = SmtpReply(501, "5.5.4 Syntax: MAIL FROM:<address> [parameters]")
SYNTAX_RCPT = SmtpReply(501, "5.5.4 Syntax: RCPT TO:<address> [parameters]")
SYNTAX_RSET = SmtpReply(501, "5.5.4 RSET takes no argument")
SYNTAX_DATA = SmtpReply(501, "5.5.4 DATA takes no argument")
SYNTAX_STARTTLS = SmtpReply(501, "5.5.4 STARTTLS takes no argument")
SYNTAX_XFORWARD = SmtpReply(501, "5.5.4 Syntax: XFORWARD attribute=value ...")
NO_HELO = SmtpReply(503, "5.5.1 Send EHLO or HELO first")
MAIL_ALREADY_GIVEN = SmtpReply(503, "5.5.1 MAIL was already given")
NO_LHLO = SmtpReply(503, "5.5.1 Send LHLO first")
IS_LMTP = SmtpReply(500, "5.5.1 This is LMTP, send LHLO")
NO_AUTH = SmtpReply(502, "5.5.1 AUTH is not offered")
NO_STARTTLS = SmtpReply(502, "5.5.1 STARTTLS is not offered")
TEXT_BEHIND_STARTTLS = SmtpReply(503, "5.5.1 Nothing may follow STARTTLS before TLS has begun")
TLS_REQUIRED = SmtpReply(530, "5.7.0 Send STARTTLS first")
NO_MAIL = SmtpReply(503, "5.5.1 Send MAIL first")
NO_VALID_RECIPIENTS = SmtpReply(503, "5.5.1 No valid recipients")
XFORWARD_NOT_ALLOWED = SmtpReply(550, "5.7.1 XFORWARD is not accepted from here")
TOO_MANY_RECIPIENTS = SmtpReply(452, "4.5.3 Too many recipients, send the others in another transaction")
FEEDBACK_MIXED_WITH_MAIL = SmtpReply(
    452, "4.5.3 Feedback travels alone, send this recipient in another transaction"
)
MESSAGE_TOO_BIG = SmtpReply(552, "5.3.4 Message is larger than is accepted here")
ADDRESS_TOO_LONG = SmtpReply(553, "5.1.0 Address is too long")
TOO_MANY_RECIPIENTS_OF_MESSAGE = SmtpReply(554, "5.5.3 Message has too many recipients")
TOO_MANY_FIELDS = SmtpReply(554, "5.6.0 Message has too many header fields")
TOO_MANY_BYTES_IN_FLIGHT = SmtpReply(452, "4.3.1 Too much mail is in flight, please try again later")
OK = SmtpReply(250, "2.0.0 Ok")
SENDER_OK = SmtpReply(250, "2.1.0 Ok")
VRFY_NOT_SUPPORTED = SmtpReply(252, "2.5.2 Send some mail, it will be tried")
TOO_MANY_CONNECTIONS = SmtpReply(421, "4.3.2 Too many connections, please try again later")
CLOSING = SmtpReply(421, "4.3.2 Shutting down, please try again later")
TLS_READY = SmtpReply(220, "2.0.0 Ready to start TLS")
GO_AHEAD = SmtpReply(354, "End data with <CR><LF>.<CR><LF>")
ACCEPTED = SmtpReply(250, "2.0.0 Accepted")
MESSAGE_DEFERRED = SmtpReply(451, "4.7.1 Message deferred, please try again later")


def refusal(kind: ActionKind, message_id: str) -> SmtpReply:
    """Return the reply to a message that is refused because of its verdict.

    It reaches strangers, and says no more than the id by which somebody at this site finds the message.
    """
    if kind is ActionKind.DEFER:
        return MESSAGE_DEFERRED
    return SmtpReply(550, f"5.7.1 Message refused as spam, id={message_id}")


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
    errors.InputError: TEMPORARY_FAILURE,
    errors.NotReleased: TEMPORARY_FAILURE,
    errors.NotRunning: TEMPORARY_FAILURE,
    errors.OutputFailed: TEMPORARY_FAILURE,
    NbstreamError: TEMPORARY_FAILURE,
}
"""A reply, or a function that makes it of the error. A class without a row has that of its parent."""


def error_reply(error: NbstreamError) -> SmtpReply:
    """Return the reply to a command that ended with ``error``."""
    row = table_row(ERROR_REPLIES, type(error))
    return row if isinstance(row, SmtpReply) else row(error)
