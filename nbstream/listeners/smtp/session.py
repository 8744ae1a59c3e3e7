"""One SMTP or LMTP session: the commands of a connection, as a transparent relay answers them.

Rules:
- The next hop's transaction opens at MAIL, and every RCPT gets the next hop's own reply. Where the next hop cannot
  be reached the client learns that at RCPT, so that feedback is learned even while it is away.
- DATA is read in chunks up to CRLF.CRLF and nothing else. Memory is reserved from a limit that all connections
  share.
- A command is a method ``smtp_*`` in the place of aiosmtpd's, whose HELO, NOOP, HELP, EXPN and QUIT answer here,
  too. Its MAIL and RCPT refuse unknown parameters, and change the case of the others. Its DATA refuses long lines.
  Its EHLO offers what it can do itself, and sends each line alone. Its RSET and VRFY give other replies.
- LMTP (RFC 2033) is SMTP with LHLO in the place of HELO and EHLO, and with a reply for each recipient after the
content.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from aiosmtpd.smtp import syntax

from nbstream.delivery.next_hop import DataReplies, Envelope, SmtpPath, SmtpReply
from nbstream.errors import NbstreamError, RelayRefused, RelayUnavailable
from nbstream.listeners.smtp import codec
from nbstream.listeners.smtp.codec import DATA_END, IncomingContent
from nbstream.listeners.smtp.connection import SmtpConnection
from nbstream.listeners.smtp.delivery import Delivery
from nbstream.listeners.smtp.settings import LmtpListenerSettings, TlsMode
from nbstream.logs import event_fields
from nbstream.server import smtp_replies
from nbstream.server.connections import Peer, RefusingProtocol
from nbstream.server.smtp_replies import RELAY_UNAVAILABLE, TEMPORARY_FAILURE, error_reply

if TYPE_CHECKING:
    import asyncio
    import socket

    from nbstream.delivery.next_hop import NextHop, Transaction
    from nbstream.delivery.quarantine import Quarantine
    from nbstream.listeners.smtp.settings import MailListenerSettings
    from nbstream.server.message_service import MessageService
    from nbstream.server.runtime import Runtime


_log = logging.getLogger(__name__)

XFORWARD_EXTENSION = " ".join(("XFORWARD", *codec.XFORWARD_ATTRIBUTES))
"""The line of EHLO that offers XFORWARD with all of its attributes."""

VERDICT_PARAMETER = "XVERDICT"
"""The parameter of MAIL, and the keyword of EHLO, by which a program asks for the verdict in the reply to DATA.

A mail server never asks. It copies replies into bounces and delivery reports, and before its queue it gives them
to the sender: to strangers, who could try a text until it passes.
"""

_FORWARDED_EXTENSIONS = frozenset({"8BITMIME", "SMTPUTF8", "DSN", "ENHANCEDSTATUSCODES", "PIPELINING", "SIZE"})


@dataclass(slots=True)
class MailTransaction:
    """One mail that comes in, with its sender and the recipients that were accepted.

    It has one destination: the next hop's transaction, or the label of the feedback address that it is sent to. It
    has none while the next hop is away, and after a fault: each further RCPT and DATA gets a 451 then. With a mere
    503 at DATA the client would bounce mail whose first recipients were accepted.

    It goes by one ``delivery`` from MAIL to its end. ``wants_verdict``: the client asked for the verdict in the
    reply, and may see it.
    """

    delivery: Delivery
    sender: SmtpPath
    next_hop_transaction: Transaction | None
    feedback_label: str | None = None
    wants_verdict: bool = False
    recipients: list[SmtpPath] = field(default_factory=list)

    async def drop_destination(self) -> None:
        """End the next hop's transaction, and relay and learn nothing."""
        transaction, self.next_hop_transaction = self.next_hop_transaction, None
        self.feedback_label = None
        if transaction is not None:
            await transaction.abort()


class SmtpSession(SmtpConnection):
    """The session of one connection; ``_mail`` is its state from MAIL to the end of DATA."""

    ident = "ESMTP nbstream"
    needs_greeting = smtp_replies.NO_HELO
    answers_each_recipient = False

    def __init__(self, listener: SmtpListener) -> None:
        super().__init__(listener.service.name, listener.hostname, self.ident, listener.service.limits)
        self._listener = listener
        self._forwarded: dict[str, str] | None = None
        self._mail: MailTransaction | None = None
        self._peer = Peer("")
        self.awaits_handshake = listener.section.tls is TlsMode.IMPLICIT

    # Beginning and end

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin a session."""
        super().connection_made(transport)
        self._peer = self._listener.connections.peer_of(transport)
        self._listener.connections.opened(self)

    def connection_lost(self, error: Exception | None) -> None:
        """End the session."""
        super().connection_lost(error)
        self._listener.connections.closed(self)

    async def begin(self) -> None:
        """Begin TLS where it comes before everything else."""
        if self._listener.section.tls is TlsMode.IMPLICIT:
            await self._begin_tls()

    async def _begin_tls(self) -> None:
        service = self._listener.service
        context = service.runtime.tls_contexts.get(service.name)
        assert context is not None
        try:
            await self.start_tls(context)
        except ConnectionError as error:
            _log.info("%s: %s", self._listener.service.name, error, extra=event_fields(peer=str(self._peer)))
            # Where the client went away during the handshake, uvloop does not say that the connection is lost.
            self._listener.connections.closed(self)
            raise

    async def end(self) -> None:
        """End the transaction that is open."""
        await self._reset()

    def close_if_idle(self) -> None:
        """Close the connection, for the daemon drains, unless a message is under way."""
        if self._mail is None:
            self.close_for_shutdown()

    def _close_if_draining(self) -> None:
        if self._listener.connections.draining:
            self.close_for_shutdown()

    async def handle_exception(self, error: Exception) -> str:
        """Return the reply to a command that failed: never the text of an exception."""
        if self._mail is not None:
            await self._mail.drop_destination()
        if isinstance(error, NbstreamError):
            _log.warning("%s: %s", self._listener.service.name, error)
            return str(error_reply(error))
        _log.error("%s: a command failed", self._listener.service.name, exc_info=error)
        return str(TEMPORARY_FAILURE)

    async def _reset(self) -> None:
        """Go back to the state after EHLO."""
        mail, self._mail = self._mail, None
        if self._forwarded is not None:  # one XFORWARD is for one mail, but the next one is not the peer's own
            self._forwarded = {}
        if mail is not None:
            await mail.drop_destination()

    # Commands

    async def smtp_HELO(self, hostname: str) -> None:
        """HELO: begin a session without extensions."""
        await self._reset()
        await super().smtp_HELO(hostname)

    async def smtp_EHLO(self, hostname: str) -> None:
        """EHLO: offer only what the next hop offers, so that everything taken here can be passed on."""
        if not hostname:
            await self.send_reply(smtp_replies.SYNTAX_EHLO)
            return
        await self._reset()
        assert self.session is not None
        self.session.host_name = hostname
        offered = sorted((await self._listener.next_hop.features()) & _FORWARDED_EXTENSIONS)
        size = f"SIZE {self._listener.service.limits.max_message_bytes}"
        own_extensions = [
            *([XFORWARD_EXTENSION] if self._is_trusted_proxy() else ()),
            *([VERDICT_PARAMETER] if self._may_see_verdicts() else ()),
            *(["STARTTLS"] if self._offers_starttls() else ()),
        ]
        lines = [self._listener.hostname, *own_extensions, *(size if name == "SIZE" else name for name in offered)]
        await self.send_reply(SmtpReply(250, "\n".join(lines)))

    def _offers_starttls(self) -> bool:
        return self._listener.section.tls in {TlsMode.MAY, TlsMode.REQUIRE} and not self.is_encrypted

    async def smtp_STARTTLS(self, arg: str | None) -> None:
        """STARTTLS: go on within TLS, with nothing of what was said before (RFC 3207 4.2).

        A client that sends more before TLS has begun may be one into whose connection somebody else writes. His
        commands must not be carried out after the handshake as if the client had sent them (CVE-2011-0411). They
        are answered as they came, without TLS.
        """
        if arg:
            await self.send_reply(smtp_replies.SYNTAX_STARTTLS)
        elif not self._offers_starttls():
            await self.send_reply(smtp_replies.NO_STARTTLS)
        elif self.has_unread:
            await self.send_reply(smtp_replies.TEXT_BEHIND_STARTTLS)
        else:
            await self._reset()
            self.awaits_handshake = True
            await self.send_reply(smtp_replies.TLS_READY)
            await self._begin_tls()
            self._forwarded = None
            assert self.session is not None
            self.session.host_name = None

    async def smtp_RSET(self, arg: str) -> None:
        """RSET: give up the transaction."""
        if arg:
            await self.send_reply(smtp_replies.SYNTAX_RSET)
            return
        await self._reset()
        await self.send_reply(smtp_replies.OK)
        self._close_if_draining()

    @syntax("QUIT")
    async def smtp_QUIT(self, arg: str) -> None:
        """QUIT: close the connection. aiosmtpd cancels the task then, so the transaction is given up before."""
        if not arg:
            await self._reset()
        await super().smtp_QUIT(arg)

    async def smtp_VRFY(self, arg: str) -> None:
        """VRFY: never say which addresses exist, and parse none."""
        await self.send_reply(smtp_replies.VRFY_NOT_SUPPORTED)

    async def smtp_AUTH(self, arg: str | None) -> None:
        """AUTH: nobody logs in here. aiosmtpd would ask for TLS, also of a client that has it."""
        await self.send_reply(smtp_replies.NO_AUTH)

    async def smtp_XFORWARD(self, arg: str | None) -> None:
        """XFORWARD: a trusted proxy says whose the next mail is; whoever it names is the teacher."""
        attributes = codec.parse_xforward(arg)
        if self._needs_tls():
            reply = smtp_replies.TLS_REQUIRED
        elif not self._is_trusted_proxy():
            reply = smtp_replies.XFORWARD_NOT_ALLOWED
        elif attributes is None:
            reply = smtp_replies.SYNTAX_XFORWARD
        elif self._mail is not None:
            reply = smtp_replies.MAIL_ALREADY_GIVEN
        else:
            reply = smtp_replies.OK
            self._forwarded = {**(self._forwarded or {}), **attributes}
        await self.send_reply(reply, grouped=True)

    def _is_trusted_proxy(self) -> bool:
        """Whether the peer may name clients; on a unix socket its permissions have said so."""
        proxies = self._listener.section.trusted_proxies
        return self._peer.address is None or self._peer.is_in_networks(proxies)

    def _forwarded_client(self) -> Peer | None:
        """The client for whom the peer speaks; None where it speaks for itself, or for mail of its own machine."""
        if self._forwarded is None:
            return None
        address = self._forwarded.get("ADDR", "")
        is_local = not address and self._forwarded.get("SOURCE", "").upper() == "LOCAL"
        return None if is_local else Peer(address)

    def _origin(self) -> dict[str, str]:
        """The fields of the log by which a message is found in the log of the proxy, where it has named them."""
        forwarded = self._forwarded or {}
        fields = {"queue_id": forwarded.get("IDENT"), "client": forwarded.get("ADDR")}
        return {name: value for name, value in fields.items() if value}

    def _client(self) -> str:
        """The address of the client that the peer names; empty where it names none."""
        return (self._forwarded or {}).get("ADDR", "")

    def _may_see_verdicts(self) -> bool:
        """Whether the peer gets verdicts in replies if it asks for them. A client behind it never does."""
        return self._forwarded is None and self._listener.service.teachers.may_teach(self._peer)

    async def smtp_MAIL(self, arg: str | None) -> None:
        """MAIL: open the next hop's transaction; its refusal is the reply."""
        if self._listener.connections.draining:
            self.close_for_shutdown()
            return
        await self.send_reply(await self._open_mail(arg), grouped=True)

    def _needs_tls(self) -> bool:
        """Whether mail is taken only after STARTTLS, which the client did not send yet."""
        return self._listener.section.tls is TlsMode.REQUIRE and not self.is_encrypted

    async def _open_mail(self, arg: str | None) -> SmtpReply:
        if self._needs_tls():
            return smtp_replies.TLS_REQUIRED
        if not (self.session and self.session.host_name):
            return self.needs_greeting
        if self._mail is not None:
            return smtp_replies.MAIL_ALREADY_GIVEN
        path = codec.parse_path("FROM", arg)
        if path is None:
            return smtp_replies.SYNTAX_MAIL
        size = codec.declared_size(path[1])
        if size is not None and size > self._listener.service.limits.max_message_bytes:
            return smtp_replies.MESSAGE_TOO_BIG
        sender, wants_verdict = self._without_verdict_parameter(SmtpPath(*path))
        mail = MailTransaction(self._listener.delivery, sender, None, wants_verdict=wants_verdict)
        try:
            mail.next_hop_transaction = await self._listener.next_hop.begin(mail.sender)
        except RelayRefused as refusal:
            return error_reply(refusal)
        except RelayUnavailable as error:
            _log.warning("%s: %s", self._listener.service.name, error)
        self._mail = mail
        return smtp_replies.SENDER_OK

    def _without_verdict_parameter(self, path: SmtpPath) -> tuple[SmtpPath, bool]:
        """Return the path as the next hop gets it, and whether the client asks for the verdict and may see it."""
        parameters = tuple(name for name in path.parameters if name.upper() != VERDICT_PARAMETER)
        if parameters == path.parameters or not self._may_see_verdicts():
            return path, False
        return SmtpPath(path.address, parameters), True

    async def smtp_RCPT(self, arg: str | None) -> None:
        """RCPT: give the next hop's own reply, or ours for a feedback address."""
        await self.send_reply(await self._add_recipient(arg), grouped=True)

    async def _add_recipient(self, arg: str | None) -> SmtpReply:
        mail = self._mail
        if mail is None:
            return smtp_replies.NO_MAIL
        path = codec.parse_path("TO", arg)
        if path is None or not path[0]:
            return smtp_replies.SYNTAX_RCPT
        if len(mail.recipients) >= self._listener.max_recipients:
            return smtp_replies.TOO_MANY_RECIPIENTS
        recipient = SmtpPath(*path)
        label = mail.delivery.feedback.label_of(recipient.address)
        if label is not None:
            return await self._add_feedback_recipient(mail, label, recipient)
        if mail.feedback_label is not None:
            return smtp_replies.FEEDBACK_MIXED_WITH_MAIL
        if mail.next_hop_transaction is None:
            return RELAY_UNAVAILABLE
        # One reply to DATA cannot say two things: the client must learn what became of each recipient.
        says_both = self.answers_each_recipient or not self._listener.next_hop.answers_each_recipient
        if mail.recipients and not says_both:
            return smtp_replies.TOO_MANY_RECIPIENTS
        reply = await mail.next_hop_transaction.rcpt(recipient)
        if reply.accepted:
            mail.recipients.append(recipient)
        return reply

    async def _add_feedback_recipient(self, mail: MailTransaction, label: str, recipient: SmtpPath) -> SmtpReply:
        if not self._takes_feedback():
            return self._refuse_feedback(mail, label)
        if mail.recipients and mail.feedback_label != label:
            return smtp_replies.FEEDBACK_MIXED_WITH_MAIL
        mail.recipients.append(recipient)
        await mail.drop_destination()
        mail.feedback_label = label
        return SmtpReply(250, f"2.1.5 Ok, to be learned as {label}")

    def _takes_feedback(self) -> bool:
        """Whether feedback is taken now: the right to teach is that of this moment, not that of MAIL."""
        teachers = self._listener.service.teachers
        return teachers.may_teach_for(self._peer, self._forwarded_client())

    def _refuse_feedback(self, mail: MailTransaction, label: str) -> SmtpReply:
        return mail.delivery.feedback.refuse(
            label, self._listener.service.name, self._forwarded_client() or self._peer
        )

    async def smtp_DATA(self, arg: str | None) -> None:
        """DATA: read the message, then learn it or deliver it."""
        mail = self._mail
        if mail is None or not mail.recipients:
            await self.send_reply(smtp_replies.NO_MAIL if mail is None else smtp_replies.NO_VALID_RECIPIENTS)
            return
        if arg:
            await self.send_reply(smtp_replies.SYNTAX_DATA)
            return
        if mail.next_hop_transaction is None and mail.feedback_label is None:
            await self._reset()
            await self.send_reply(RELAY_UNAVAILABLE)
            return
        # The end of the content is CRLF.CRLF. For an empty message the first CRLF is the one after DATA, which was
        # read with the command. It is put back: then one rule finds the end of every message, and each dot at the
        # beginning of a line has a CRLF before it, also that of the first line. That comes after the reply, which
        # lets other tasks run first where a line is here already.
        await self.send_reply(smtp_replies.GO_AHEAD)
        self.unread(b"\r\n")
        incoming = IncomingContent(self._listener.service.limits, self._listener.service.bytes_in_flight)
        try:
            await self._reply_to_data(mail, await self._replies_to_content(mail, incoming))
        finally:
            incoming.release()
            await self._reset()
            self._close_if_draining()

    async def _reply_to_data(self, mail: MailTransaction, data_replies: DataReplies) -> None:
        """Answer the content of a message."""
        await self.send_reply(data_replies.single)

    async def _replies_to_content(self, mail: MailTransaction, incoming: IncomingContent) -> DataReplies:
        try:
            return await self._learn_or_deliver(mail, incoming)
        except (ConnectionError, EOFError):
            raise
        except Exception:  # noqa: BLE001 - whatever it is, each recipient gets a reply
            _log.exception("%s: a message failed", self._listener.service.name)
            return DataReplies((TEMPORARY_FAILURE,))

    async def _learn_or_deliver(self, mail: MailTransaction, incoming: IncomingContent) -> DataReplies:
        problem = await self._read_content(incoming)
        if problem:
            return DataReplies((problem,))
        self.stop_timers()  # the client waits for us now, and what follows has deadlines of its own
        try:
            if mail.feedback_label is not None:
                if not self._takes_feedback():  # any more: a reload may have come since RCPT
                    return DataReplies((self._refuse_feedback(mail, mail.feedback_label),))
                actor = str(self._forwarded_client() or "") or str(self._peer)
                reply = await mail.delivery.feedback.learn(
                    incoming.content(),
                    mail.feedback_label,
                    self._listener.service.name,
                    actor,
                    mail.sender.address,
                )
                return DataReplies((reply,))
            transaction, mail.next_hop_transaction = mail.next_hop_transaction, None
            assert transaction is not None
            envelope = Envelope(mail.sender, tuple(mail.recipients))
            # Nothing but the delivery holds the content, which may be rewritten there.
            return await mail.delivery.deliver(
                incoming.content(),
                envelope,
                transaction,
                self._origin(),
                self._client(),
                shows_verdict=mail.wants_verdict and self._may_see_verdicts(),
            )
        finally:
            self.restart_timers()

    async def _read_content(self, incoming: IncomingContent) -> SmtpReply | None:
        """Read the message to its end (RFC 5321 4.1.1.4), and return the reply that refuses it, if one does."""
        ended = False
        while not ended:
            chunk, ended = await self.read_until(DATA_END)
            self.restart_idle_timer()
            incoming.add(chunk, last=ended)
            if incoming.problem and incoming.exceeds_read_limit and not ended:
                await self.send_reply(incoming.problem)
                self.abort()
                raise ConnectionResetError
        return incoming.problem


class LmtpSession(SmtpSession):
    """The same in LMTP (RFC 2033)."""

    ident = "LMTP nbstream"
    needs_greeting = smtp_replies.NO_LHLO
    answers_each_recipient = True

    async def smtp_LHLO(self, hostname: str) -> None:
        """LHLO: what EHLO is in SMTP."""
        await super().smtp_EHLO(hostname)

    async def smtp_HELO(self, hostname: str) -> None:
        """HELO and EHLO: refused, so that no SMTP client takes this for its server (RFC 2033 4.1)."""
        await self.send_reply(smtp_replies.IS_LMTP)

    smtp_EHLO = smtp_HELO

    async def _reply_to_data(self, mail: MailTransaction, data_replies: DataReplies) -> None:
        """Answer the content of a message, once for each recipient that was accepted.

        A client that misses a reply would take the next one for it, so it gets them whatever happens.
        """
        rendered = (reply.render() for reply in data_replies.per_recipient(len(mail.recipients)))
        await self.push(b"\r\n".join(rendered))


# The SMTP or LMTP listener: what its connections share, and what becomes of mail.


class SmtpListener:
    """Takes mail. ``service`` has its name and its limits, and ``hostname`` is the one in its greeting.

    Recipients beyond ``max_recipients`` are put off, and the client sends to them in a second transaction; RFC
    5321 4.5.3.1.8 asks for at least 100. ``delivery`` is that of the next transaction.
    """

    def __init__(
        self,
        section: MailListenerSettings,
        service: MessageService,
        next_hop: NextHop,
        quarantine: Quarantine,
        hostname: str,
        max_recipients: int = 1000,
    ) -> None:
        self.section, self.service, self.next_hop = section, service, next_hop
        self._quarantine = quarantine
        self.hostname, self.max_recipients = hostname, max_recipients
        self.connections = service.connections()
        self._is_lmtp = isinstance(section, LmtpListenerSettings)
        self.delivery = self._delivery_now()

    async def start(self, *sockets: socket.socket) -> None:
        """Serve on these sockets."""
        await self.connections.listen(sockets, self._accept)

    def apply(self, runtime: Runtime) -> None:
        """Go by ``runtime`` from the next transaction on, on open connections too."""
        self.service.apply(runtime)
        self.delivery = self._delivery_now()

    def _delivery_now(self) -> Delivery:
        return Delivery(self.service, self.next_hop, self._quarantine, replies_to_each=self._is_lmtp)

    def _accept(self) -> asyncio.BaseProtocol:
        if self.connections.admit():
            return LmtpSession(self) if self._is_lmtp else SmtpSession(self)
        reply = smtp_replies.CLOSING if self.connections.draining else smtp_replies.TOO_MANY_CONNECTIONS
        begins_with_tls = self.section.tls is TlsMode.IMPLICIT  # plain text would only be taken for a fault
        return RefusingProtocol(b"" if begins_with_tls else reply.render() + b"\r\n")

    async def drain(self, seconds: float) -> None:
        """Stop accepting, let mail in flight finish within ``seconds``, then close what is left."""
        await self.connections.drain(seconds)
