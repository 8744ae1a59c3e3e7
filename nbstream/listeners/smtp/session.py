"""One SMTP session: the commands of a connection, made a transparent relay.

Rules:
- The next hop's transaction opens at MAIL and every RCPT gets the hop's answer. A hop that cannot be reached
  is told at RCPT, so that feedback is learned even while it is away.
- DATA is read in chunks up to CRLF.CRLF and nothing else; memory is reserved from a budget that all
  connections share.
- aiosmtpd's own MAIL, RCPT, DATA and EHLO are replaced: they refuse unknown parameters and long lines, change
  the case of parameters, and answer an exception with its text.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from nbstream.errors import NbstreamError, RelayRefused, RelayUnavailable
from nbstream.listeners.smtp import replies
from nbstream.listeners.smtp.connection import SmtpConnection
from nbstream.listeners.smtp.data_content import DATA_END, IncomingMessage
from nbstream.listeners.smtp.error_replies import RELAY_UNAVAILABLE, TEMPORARY_FAILURE, error_reply
from nbstream.listeners.smtp.listener_state import LISTENER_NAME
from nbstream.relay.next_hop import Envelope, SmtpPath, Transaction
from nbstream.wire import smtp as wire
from nbstream.wire.smtp_reply import SmtpReply

if TYPE_CHECKING:
    from nbstream.listeners.smtp.listener_state import SmtpListenerState

_log = logging.getLogger(__name__)

_FORWARDED_EXTENSIONS = frozenset({"8BITMIME", "SMTPUTF8", "DSN", "ENHANCEDSTATUSCODES", "PIPELINING", "SIZE"})


class SmtpSession(SmtpConnection):
    """One connection. State from MAIL to the end of DATA: rules, sender, recipients, the hop's transaction."""

    def __init__(self, listener: SmtpListenerState) -> None:
        limits = listener.limits
        super().__init__(limits.hostname, limits.max_message_bytes, limits.idle_timeout_seconds)
        self._listener = listener
        self._message_handlers = listener.message_handlers
        self._forwarded_address = ""
        self._sender: SmtpPath | None = None
        self._recipients: list[SmtpPath] = []
        self._feedback_label: str | None = None
        self._transaction: Transaction | None = None

    # Its beginning and its end

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin a session."""
        self._listener.session_opened(self)
        super().connection_made(transport)

    def connection_lost(self, error: Exception | None) -> None:
        """End the session; aiosmtpd cancels its task."""
        super().connection_lost(error)
        self._listener.session_closed(self)

    async def session_ended(self) -> None:
        """End the next hop's transaction."""
        await self._reset()

    def close_if_idle(self) -> None:
        """While draining: close the connection now unless a message is under way."""
        if self._sender is None:
            self._close_for_shutdown()

    def _close_if_draining(self) -> None:
        if self._listener.draining:
            self._close_for_shutdown()

    async def handle_exception(self, error: Exception) -> str:
        """The reply to a command that failed: never the text of an exception."""
        await self._give_up_relaying()
        if isinstance(error, asyncio.IncompleteReadError):  # the client has closed its side
            self.close()
            return ""  # push finds the connection closed, and that ends the session
        if isinstance(error, NbstreamError):
            _log.warning("smtp: %s", error)
            return str(error_reply(error))
        _log.error("smtp: a command failed", exc_info=error)
        return str(TEMPORARY_FAILURE)

    async def _reset(self) -> None:
        """Back to the state after EHLO."""
        self._sender, self._recipients, self._forwarded_address = None, [], ""
        await self._give_up_relaying()

    async def _give_up_relaying(self) -> None:
        """Drop what would take the message on: each further RCPT and DATA gets 451.

        After a mere 503 at DATA the client would bounce mail whose first recipients were accepted.
        """
        transaction, self._transaction = self._transaction, None
        self._feedback_label = None
        if transaction is not None:
            await transaction.abort()

    # Commands

    async def smtp_HELO(self, hostname: str) -> None:  # noqa: N802 - aiosmtpd finds commands by this name
        """HELO: no extensions."""
        await self._reset()
        await super().smtp_HELO(hostname)

    async def smtp_EHLO(self, hostname: str) -> None:  # noqa: N802 - aiosmtpd finds commands by this name
        """EHLO: offer only what the next hop offers, so that everything taken here can be passed on."""
        if not hostname:
            await self._send_reply(replies.SYNTAX_EHLO)
            return
        await self._reset()
        assert self.session is not None
        self.session.extended_smtp = True
        self.session.host_name = hostname
        offered = sorted((await self._listener.next_hop.features()) & _FORWARDED_EXTENSIONS)
        size = f"SIZE {self._listener.limits.max_message_bytes}"
        own = ["XFORWARD ADDR"] if self._listener.message_handlers.may_name_teacher(self._peer) else []
        lines = [self.hostname, *own, *(size if each == "SIZE" else each for each in offered)]
        await self._send_reply(SmtpReply(250, "\n".join(lines)))

    async def smtp_RSET(self, arg: str) -> None:  # noqa: N802 - aiosmtpd finds commands by this name
        """RSET: give up the transaction."""
        if arg:
            await self._send_reply(replies.SYNTAX_RSET)
            return
        await self._reset()
        await self._send_reply(replies.OK)
        self._close_if_draining()

    async def smtp_VRFY(self, arg: str) -> None:  # noqa: N802 - aiosmtpd finds commands by this name
        """VRFY: never tell which addresses exist, and parse none."""
        await self._send_reply(replies.VRFY_NOT_SUPPORTED)

    async def smtp_XFORWARD(self, arg: str | None) -> None:  # noqa: N802 - aiosmtpd finds commands by this name
        """XFORWARD: a mail server on this machine says from whom the next mail came: that is who teaches."""
        address = wire.forwarded_address(arg)
        reply = replies.SYNTAX_XFORWARD if address is None else replies.OK
        if not self._listener.message_handlers.may_name_teacher(self._peer):
            reply = replies.XFORWARD_NOT_ALLOWED
        elif self._sender is not None:
            reply = replies.MAIL_ALREADY_GIVEN
        else:
            self._forwarded_address = address or ""
        await self._send_reply(reply)

    async def smtp_MAIL(self, arg: str | None) -> None:  # noqa: N802 - aiosmtpd finds commands by this name
        """MAIL: open the next hop's transaction; its refusal is the answer."""
        if self._listener.draining:
            self._close_for_shutdown()
            return
        await self._send_reply(await self._mail(arg), grouped=True)

    async def _mail(self, arg: str | None) -> SmtpReply:
        assert self.session is not None
        if not self.session.host_name:
            return replies.NO_HELO
        if self._sender is not None:
            return replies.MAIL_ALREADY_GIVEN
        parsed = wire.parse_path("FROM", arg)
        if parsed is None:
            return replies.SYNTAX_MAIL
        size = wire.declared_size(parsed[1])
        if size is not None and size > self._listener.limits.max_message_bytes:
            return replies.MESSAGE_TOO_BIG
        sender, self._message_handlers = SmtpPath(*parsed), self._listener.message_handlers
        try:
            self._transaction = await self._listener.next_hop.begin(sender)
        except RelayRefused as refusal:
            return error_reply(refusal)
        except RelayUnavailable as error:
            _log.warning("smtp: %s", error)
        self._sender = sender
        return replies.SENDER_OK

    async def smtp_RCPT(self, arg: str | None) -> None:  # noqa: N802 - aiosmtpd finds commands by this name
        """RCPT: the next hop's own answer, or ours for a feedback address."""
        await self._send_reply(await self._rcpt(arg), grouped=True)

    async def _rcpt(self, arg: str | None) -> SmtpReply:
        if self._sender is None:
            return replies.NO_MAIL
        parsed = wire.parse_path("TO", arg)
        if parsed is None or not parsed[0]:
            return replies.SYNTAX_RCPT
        if len(self._recipients) >= self._listener.limits.max_recipients:
            return replies.TOO_MANY_RECIPIENTS
        label = self._message_handlers.feedback.label_of(parsed[0])
        if label is not None:
            return await self._feedback_rcpt(label, SmtpPath(*parsed))
        if self._feedback_label is not None:
            return replies.FEEDBACK_MIXED_WITH_MAIL
        if self._transaction is None:
            return RELAY_UNAVAILABLE
        recipient = SmtpPath(*parsed)
        reply = await self._transaction.rcpt(recipient)
        if reply.accepted:
            self._recipients.append(recipient)
        return reply

    async def _feedback_rcpt(self, label: str, recipient: SmtpPath) -> SmtpReply:
        if not self._message_handlers.teachers.may_teach(self._peer):
            return self._message_handlers.feedback.refuse(label, LISTENER_NAME, self._peer)
        if self._recipients and self._feedback_label != label:
            return replies.FEEDBACK_MIXED_WITH_MAIL
        self._feedback_label = label
        self._recipients.append(recipient)
        transaction, self._transaction = self._transaction, None
        if transaction is not None:
            await transaction.abort()
        return SmtpReply(250, f"2.1.5 Ok, to be learned as {label}")

    async def smtp_DATA(self, arg: str | None) -> None:  # noqa: N802 - aiosmtpd finds commands by this name
        """DATA: read the message, then learn it or deliver it."""
        if self._sender is None or not self._recipients:
            await self._send_reply(replies.NO_MAIL if self._sender is None else replies.NO_VALID_RECIPIENTS)
            return
        if arg:
            await self._send_reply(replies.SYNTAX_DATA)
            return
        if self._transaction is None and self._feedback_label is None:
            await self._reset()
            await self._send_reply(RELAY_UNAVAILABLE)
            return
        # The CRLF that ended the command is part of a lone CRLF.CRLF (an empty message) and of a first dot.
        self.unread(b"\r\n")
        await self._send_reply(replies.GO_AHEAD)
        arriving = IncomingMessage(self._listener.limits.max_message_bytes, self._listener.byte_budget)
        try:
            await self._send_reply(await self._learn_or_deliver(arriving))
        finally:
            arriving.release()
            await self._reset()
            self._close_if_draining()

    async def _learn_or_deliver(self, arriving: IncomingMessage) -> SmtpReply:
        content = await self._read_content(arriving)
        if isinstance(content, SmtpReply):
            return content
        self.stop_idle_timer()  # what follows has deadlines of its own; it is the client who waits now
        try:
            if self._feedback_label is not None:
                feedback, actor = self._message_handlers.feedback, self._forwarded_address or str(self._peer)
                return await feedback.learn(content, self._feedback_label, LISTENER_NAME, actor)
            transaction, self._transaction = self._transaction, None
            assert transaction is not None
            assert self._sender is not None
            envelope = Envelope(self._sender, tuple(self._recipients))
            delivered = await self._message_handlers.delivery.deliver(
                content, envelope, transaction, LISTENER_NAME
            )
            may_teach = self._message_handlers.teachers.may_teach(self._peer)
            return delivered.reply_with_verdict if may_teach else delivered.reply
        finally:
            self.restart_idle_timer()

    async def _read_content(self, arriving: IncomingMessage) -> bytes | SmtpReply:
        """The message with CRLF line ends, or the reply that refuses it; reads to its end. RFC 5321 4.1.1.4."""
        ended = False
        while not ended:
            try:
                chunk = await self.reader.readuntil(DATA_END)
                ended = True
            except asyncio.LimitOverrunError as overrun:
                chunk = await self.reader.readexactly(overrun.consumed)
            self.restart_idle_timer()
            arriving.add(chunk, last=ended)
            if arriving.problem and arriving.exceeds_read_limit and not ended:
                await self._send_reply(arriving.problem)
                self.abort()
                raise ConnectionResetError
        return arriving.problem or arriving.content()
