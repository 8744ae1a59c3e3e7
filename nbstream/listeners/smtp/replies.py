"""The replies that an SMTP session gives by itself, with the enhanced status codes of RFC 3463."""

from __future__ import annotations

from nbstream.policy.actions import ActionKind
from nbstream.wire.smtp_reply import SmtpReply

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
