"""One SMTP session: the commands of a connection, as a transparent relay answers them.

Rules:
- The next hop's transaction opens at MAIL, and every RCPT gets the next hop's own reply. Where the next hop cannot
  be reached the client learns that at RCPT, so that feedback is learned even while it is away.
- DATA is read in chunks up to CRLF.CRLF and nothing else. Memory is reserved from a limit that all connections
  share.
- aiosmtpd's own MAIL, RCPT, DATA and EHLO are replaced: they refuse unknown parameters and long lines, change the
  case of parameters, and answer an exception with its text.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from nbstream.delivery.next_hop import DataReplies, Envelope, SmtpPath
from nbstream.errors import NbstreamError, RelayRefused, RelayUnavailable
from nbstream.listeners.smtp import codec
from nbstream.listeners.smtp.connection import SmtpConnection
from nbstream.listeners.smtp.data_content import DATA_END, IncomingMessage
from nbstream.listeners.smtp.mail_transaction import MailTransaction
from nbstream.listeners.smtp.settings import TlsMode
from nbstream.logs import event_fields
from nbstream.server import smtp_replies
from nbstream.server.peers import Peer
from nbstream.server.smtp_replies import RELAY_UNAVAILABLE, TEMPORARY_FAILURE, error_reply
from nbstream.wire.smtp_reply import SmtpReply

if TYPE_CHECKING:
    from nbstream.listeners.smtp.listener_state import SmtpListenerState

_log = logging.getLogger(__name__)

XFORWARD_EXTENSION = " ".join(("XFORWARD", *codec.XFORWARD_ATTRIBUTES))
"""The line of EHLO that offers XFORWARD with all of its attributes."""

VERDICT_PARAMETER = "XVERDICT"
"""The parameter of MAIL, and the keyword of EHLO, by which a program asks for the verdict in the reply to DATA.

A mail server never asks. It copies replies into bounces and delivery reports, and before its queue it gives them
to the sender: to strangers, who could try a text until it passes.
"""

_FORWARDED_EXTENSIONS = frozenset({"8BITMIME", "SMTPUTF8", "DSN", "ENHANCEDSTATUSCODES", "PIPELINING", "SIZE"})


class SmtpSession(SmtpConnection):
    """The session of one connection; ``_mail`` is its state from MAIL to the end of DATA."""

    no_hello_reply = smtp_replies.NO_HELO
    """The reply to MAIL before the client has introduced itself."""

    def __init__(self, listener: SmtpListenerState) -> None:
        super().__init__(listener.limits, listener.options, listener.connections)
        self._listener = listener
        self._forwarded: dict[str, str] | None = None
        self._mail: MailTransaction | None = None
        self._awaits_handshake = listener.options.tls is TlsMode.IMPLICIT

    # Beginning and end

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin a session."""
        self._listener.connections.opened(self)
        super().connection_made(transport)

    def connection_lost(self, error: Exception | None) -> None:
        """End the session; aiosmtpd cancels its task."""
        super().connection_lost(error)
        self._listener.connections.closed(self)

    async def session_begins(self) -> None:
        """Begin TLS where it comes before everything else."""
        if self._listener.options.tls is TlsMode.IMPLICIT:
            await self._begin_tls()

    async def _begin_tls(self) -> None:
        context = self._listener.message_handlers.tls_context
        assert context is not None
        try:
            await self.encrypt(context)
        except ConnectionError as error:
            _log.info("%s: %s", self._listener_name, error, extra=event_fields(peer=str(self._peer)))
            # Where the client went away during the handshake, uvloop does not say that the connection is lost.
            self._listener.connections.closed(self)
            raise

    async def session_ended(self) -> None:
        """End the transaction that is open."""
        await self._reset()

    def close_if_idle(self) -> None:
        """Close the connection, for the daemon drains, unless a message is under way."""
        if self._mail is None:
            self._close_for_shutdown()

    def _close_if_draining(self) -> None:
        if self._listener.connections.draining:
            self._close_for_shutdown()

    async def handle_exception(self, error: Exception) -> str:
        """Return the reply to a command that failed: never the text of an exception."""
        if self._mail is not None:
            await self._mail.drop_destination()
        if isinstance(error, asyncio.IncompleteReadError | ConnectionError):  # the client has gone away
            self.close()
            return ""  # push finds the connection closed, and that ends the session
        if isinstance(error, NbstreamError):
            _log.warning("%s: %s", self._listener_name, error)
            return str(error_reply(error))
        _log.error("%s: a command failed", self._listener_name, exc_info=error)
        return str(TEMPORARY_FAILURE)

    async def _reset(self) -> None:
        """Go back to the state after EHLO."""
        mail, self._mail = self._mail, None
        if self._forwarded is not None:  # one XFORWARD is for one mail, but the next one is not the peer's own
            self._forwarded = {}
        if mail is not None:
            await mail.drop_destination()

    # Commands

    async def smtp_HELO(self, hostname: str) -> None:  # noqa: N802 - aiosmtpd finds commands by this name
        """HELO: begin a session without extensions."""
        await self._reset()
        await super().smtp_HELO(hostname)

    async def smtp_EHLO(self, hostname: str) -> None:  # noqa: N802 - aiosmtpd finds commands by this name
        """EHLO: offer only what the next hop offers, so that everything taken here can be passed on."""
        if not hostname:
            await self._send_reply(smtp_replies.SYNTAX_EHLO)
            return
        await self._reset()
        assert self.session is not None
        self.session.extended_smtp = True
        self.session.host_name = hostname
        offered = sorted((await self._listener.next_hop.features()) & _FORWARDED_EXTENSIONS)
        size = f"SIZE {self._listener.limits.max_message_bytes}"
        own_extensions = [
            *([XFORWARD_EXTENSION] if self._is_trusted_proxy else ()),
            *([VERDICT_PARAMETER] if self._may_see_verdicts else ()),
            *(["STARTTLS"] if self._offers_starttls else ()),
        ]
        lines = [self.hostname, *own_extensions, *(size if name == "SIZE" else name for name in offered)]
        await self._send_reply(SmtpReply(250, "\n".join(lines)))

    @property
    def _offers_starttls(self) -> bool:
        return self._listener.options.tls.offers_starttls and not self._is_encrypted

    async def smtp_STARTTLS(self, arg: str | None) -> None:  # noqa: N802 - aiosmtpd finds commands by this name
        """STARTTLS: go on within TLS, with nothing of what was said before (RFC 3207 4.2).

        A client that sends more before TLS has begun may be one into whose connection somebody else writes. His
        commands must not be carried out after the handshake as if the client had sent them (CVE-2011-0411). They
        are answered as they came, without TLS.
        """
        if arg:
            await self._send_reply(smtp_replies.SYNTAX_STARTTLS)
        elif not self._offers_starttls:
            await self._send_reply(smtp_replies.NO_STARTTLS)
        elif self.has_unread:
            await self._send_reply(smtp_replies.TEXT_BEHIND_STARTTLS)
        else:
            await self._reset()
            self._awaits_handshake = True
            await self._send_reply(smtp_replies.TLS_READY)
            await self._begin_tls()
            assert self.session is not None
            self._forwarded = self.session.host_name = None

    async def smtp_RSET(self, arg: str) -> None:  # noqa: N802 - aiosmtpd finds commands by this name
        """RSET: give up the transaction."""
        if arg:
            await self._send_reply(smtp_replies.SYNTAX_RSET)
            return
        await self._reset()
        await self._send_reply(smtp_replies.OK)
        self._close_if_draining()

    async def smtp_VRFY(self, arg: str) -> None:  # noqa: N802 - aiosmtpd finds commands by this name
        """VRFY: never say which addresses exist, and parse none."""
        await self._send_reply(smtp_replies.VRFY_NOT_SUPPORTED)

    async def smtp_AUTH(self, arg: str | None) -> None:  # noqa: N802 - aiosmtpd finds commands by this name
        """AUTH: nobody logs in here. aiosmtpd would ask for TLS, also of a client that has it."""
        await self._send_reply(smtp_replies.NO_AUTH)

    async def smtp_XFORWARD(self, arg: str | None) -> None:  # noqa: N802 - aiosmtpd finds commands by this name
        """XFORWARD: a trusted proxy says whose the next mail is; whoever it names is the teacher."""
        attributes = codec.parse_xforward(arg)
        if self._needs_tls:
            reply = smtp_replies.TLS_REQUIRED
        elif not self._is_trusted_proxy:
            reply = smtp_replies.XFORWARD_NOT_ALLOWED
        elif attributes is None:
            reply = smtp_replies.SYNTAX_XFORWARD
        elif self._mail is not None:
            reply = smtp_replies.MAIL_ALREADY_GIVEN
        else:
            reply = smtp_replies.OK
            self._forwarded = {**(self._forwarded or {}), **attributes}
        await self._send_reply(reply, grouped=True)

    @property
    def _is_trusted_proxy(self) -> bool:
        """Whether the peer may name clients; on a unix socket its permissions have said so."""
        proxies = self._listener.options.trusted_proxies
        return self._peer.address is None or self._peer.is_in_networks(proxies)

    @property
    def _forwarded_client(self) -> Peer | None:
        """The client for whom the peer speaks; None where it speaks for itself, or for mail of its own machine."""
        if self._forwarded is None:
            return None
        address = self._forwarded.get("ADDR", "")
        is_local = not address and self._forwarded.get("SOURCE", "").upper() == "LOCAL"
        return None if is_local else Peer(address)

    @property
    def _origin(self) -> dict[str, str]:
        """The fields of the log by which a message is found in the log of the proxy, where it has named them."""
        forwarded = self._forwarded or {}
        fields = {"queue_id": forwarded.get("IDENT"), "client": forwarded.get("ADDR")}
        return {name: value for name, value in fields.items() if value}

    @property
    def _may_see_verdicts(self) -> bool:
        """Whether the peer gets verdicts in replies if it asks for them. A client behind it never does."""
        return self._forwarded is None and self._listener.message_handlers.teachers.may_teach(self._peer)

    async def smtp_MAIL(self, arg: str | None) -> None:  # noqa: N802 - aiosmtpd finds commands by this name
        """MAIL: open the next hop's transaction; its refusal is the reply."""
        if self._listener.connections.draining:
            self._close_for_shutdown()
            return
        await self._send_reply(await self._begin_mail(arg), grouped=True)

    @property
    def _needs_tls(self) -> bool:
        """Whether mail is taken only after STARTTLS, which the client did not send yet."""
        return self._listener.options.tls is TlsMode.REQUIRE and not self._is_encrypted

    async def _begin_mail(self, arg: str | None) -> SmtpReply:
        assert self.session is not None
        if self._needs_tls:
            return smtp_replies.TLS_REQUIRED
        if not self.session.host_name:
            return self.no_hello_reply
        if self._mail is not None:
            return smtp_replies.MAIL_ALREADY_GIVEN
        path = codec.parse_path("FROM", arg)
        if path is None:
            return smtp_replies.SYNTAX_MAIL
        size = codec.declared_size(path[1])
        if size is not None and size > self._listener.limits.max_message_bytes:
            return smtp_replies.MESSAGE_TOO_BIG
        sender, wants_verdict = self._without_verdict_parameter(SmtpPath(*path))
        mail = MailTransaction(self._listener.message_handlers, sender, None, wants_verdict=wants_verdict)
        try:
            mail.next_hop_transaction = await self._listener.next_hop.begin(mail.sender)
        except RelayRefused as refusal:
            return error_reply(refusal)
        except RelayUnavailable as error:
            _log.warning("%s: %s", self._listener_name, error)
        self._mail = mail
        return smtp_replies.SENDER_OK

    def _without_verdict_parameter(self, path: SmtpPath) -> tuple[SmtpPath, bool]:
        """Return the path as the next hop gets it, and whether the client asks for the verdict and may see it."""
        if not self._may_see_verdicts:
            return path, False
        parameters = tuple(name for name in path.parameters if name.upper() != VERDICT_PARAMETER)
        return SmtpPath(path.address, parameters), len(parameters) < len(path.parameters)

    async def smtp_RCPT(self, arg: str | None) -> None:  # noqa: N802 - aiosmtpd finds commands by this name
        """RCPT: give the next hop's own reply, or ours for a feedback address."""
        await self._send_reply(await self._add_recipient(arg), grouped=True)

    async def _add_recipient(self, arg: str | None) -> SmtpReply:
        mail = self._mail
        if mail is None:
            return smtp_replies.NO_MAIL
        path = codec.parse_path("TO", arg)
        if path is None or not path[0]:
            return smtp_replies.SYNTAX_RCPT
        if len(mail.recipients) >= self._listener.options.max_recipients:
            return smtp_replies.TOO_MANY_RECIPIENTS
        recipient = SmtpPath(*path)
        label = mail.handlers.feedback.label_of(recipient.address)
        if label is not None:
            return await self._add_feedback_recipient(mail, label, recipient)
        if mail.feedback_label is not None:
            return smtp_replies.FEEDBACK_MIXED_WITH_MAIL
        if mail.next_hop_transaction is None:
            return RELAY_UNAVAILABLE
        if mail.recipients and not self._can_answer_each_recipient:
            return smtp_replies.TOO_MANY_RECIPIENTS
        reply = await mail.next_hop_transaction.rcpt(recipient)
        if reply.accepted:
            mail.recipients.append(recipient)
        return reply

    @property
    def _can_answer_each_recipient(self) -> bool:
        """Whether the client learns what became of each recipient: one reply to DATA cannot say two things."""
        return self._listener.options.is_lmtp or not self._listener.next_hop.answers_each_recipient

    async def _add_feedback_recipient(self, mail: MailTransaction, label: str, recipient: SmtpPath) -> SmtpReply:
        if not self._takes_feedback:
            return self._refuse_feedback(mail, label)
        if mail.recipients and mail.feedback_label != label:
            return smtp_replies.FEEDBACK_MIXED_WITH_MAIL
        mail.recipients.append(recipient)
        await mail.send_to_feedback(label)
        return SmtpReply(250, f"2.1.5 Ok, to be learned as {label}")

    @property
    def _takes_feedback(self) -> bool:
        """Whether feedback is taken now: the right to teach is that of this moment, not that of MAIL."""
        teachers = self._listener.message_handlers.teachers
        return teachers.may_teach_for(self._peer, self._forwarded_client)

    def _refuse_feedback(self, mail: MailTransaction, label: str) -> SmtpReply:
        return mail.handlers.feedback.refuse(label, self._listener_name, self._forwarded_client or self._peer)

    async def smtp_DATA(self, arg: str | None) -> None:  # noqa: N802 - aiosmtpd finds commands by this name
        """DATA: read the message, then learn it or deliver it."""
        mail = self._mail
        if mail is None or not mail.recipients:
            await self._send_reply(smtp_replies.NO_MAIL if mail is None else smtp_replies.NO_VALID_RECIPIENTS)
            return
        if arg:
            await self._send_reply(smtp_replies.SYNTAX_DATA)
            return
        if not mail.has_destination:
            await self._reset()
            await self._send_reply(RELAY_UNAVAILABLE)
            return
        # The end of the content is CRLF.CRLF. For an empty message the first CRLF is the one after DATA, which was
        # read with the command. It is put back: then one rule finds the end of every message, and each dot at the
        # beginning of a line has a CRLF before it, also that of the first line.
        self.unread(b"\r\n")
        await self._send_reply(smtp_replies.GO_AHEAD)
        incoming = IncomingMessage(self._listener.limits, self._listener.bytes_in_flight)
        try:
            await self._send_data_replies(mail, await self._learn_or_deliver(mail, incoming))
        finally:
            incoming.release()
            await self._reset()
            self._close_if_draining()

    async def _send_data_replies(self, mail: MailTransaction, data_replies: DataReplies) -> None:
        """Answer the content of a message, which has one reply for all recipients here."""
        await self._send_reply(data_replies.single)

    async def _learn_or_deliver(self, mail: MailTransaction, incoming: IncomingMessage) -> DataReplies:
        problem = await self._read_content(incoming)
        if problem:
            return DataReplies((problem,))
        self.stop_timers()  # the client waits for us now, and what follows has deadlines of its own
        try:
            if mail.feedback_label is not None:
                if not self._takes_feedback:  # any more: a reload may have come since RCPT
                    return DataReplies((self._refuse_feedback(mail, mail.feedback_label),))
                actor = str(self._forwarded_client or "") or str(self._peer)
                reply = await mail.handlers.feedback.learn(
                    incoming.content(), mail.feedback_label, self._listener_name, actor
                )
                return DataReplies((reply,))
            transaction, mail.next_hop_transaction = mail.next_hop_transaction, None
            assert transaction is not None
            envelope = Envelope(mail.sender, tuple(mail.recipients))
            # Nothing but the delivery holds the content, which may be rewritten there.
            result = await mail.handlers.delivery.deliver(
                incoming.content(), envelope, transaction, self._listener_name, self._origin
            )
            shows_verdict = mail.wants_verdict and self._may_see_verdicts
            return result.replies_with_verdict if shows_verdict else result.replies
        finally:
            self.restart_timers()

    async def _read_content(self, incoming: IncomingMessage) -> SmtpReply | None:
        """Read the message to its end (RFC 5321 4.1.1.4), and return the reply that refuses it, if one does."""
        ended = False
        while not ended:
            try:
                chunk = await self.reader.readuntil(DATA_END)
                ended = True
            except asyncio.LimitOverrunError as overrun:
                chunk = await self.reader.readexactly(overrun.consumed)
            self.restart_idle_timer()
            incoming.add(chunk, last=ended)
            if incoming.problem and incoming.exceeds_read_limit and not ended:
                await self._send_reply(incoming.problem)
                self.abort()
                raise ConnectionResetError
        return incoming.problem
