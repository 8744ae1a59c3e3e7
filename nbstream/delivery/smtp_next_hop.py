"""A next hop that is reached over SMTP (RFC 5321) or LMTP (RFC 2033), on connections that stay open.

Rules: a connection is lent to one transaction at a time. An idle connection may have died: nothing is delivered
before the final dot, and until then the transaction is repeated, once, on a new connection. Nothing is repeated
after a deadline that passed, nor after the dot.

A command has one reply and one deadline; a message has one reply, or in LMTP one for each recipient. Whatever ends
the wait for a reply early, cancellation included, must end in ``drop``, so that a late reply is never taken for
the reply to the next command.
"""

from __future__ import annotations

import asyncio
import math
import re
import ssl
from base64 import b64encode
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, cast

from nbstream.addresses import TcpAddress, UnixAddress
from nbstream.delivery.next_hop import DataReplies, MalformedReply, SmtpPath, SmtpReply, SmtpReplyReader
from nbstream.delivery.settings import RelaySettings, TlsLevel
from nbstream.errors import RelayRefused, RelayUnavailable
from nbstream.mail.lines import PIECE_BYTES, line_spans, replace_leading_dots

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nbstream.delivery.settings import ServerNextHopSetting


# What an SMTP client reads in the reply to EHLO and says to log in, without I/O (RFC 5321 4.1.1.1, RFC 4954).


def ehlo_extensions(text: str) -> dict[str, tuple[str, ...]]:
    """Return the extensions in the text of a reply to EHLO or LHLO: keywords and parameters in upper case.

    The first line is the server's name.
    """
    lines = (line.upper().split() for line in text.split("\n")[1:])
    return {words[0]: tuple(words[1:]) for words in lines if words}


def auth_lines(mechanisms: tuple[str, ...], user: str, password: str) -> list[bytes]:
    """Return the lines of the login by the first mechanism of PLAIN and LOGIN that the server has.

    The server answers each but the last with a 334. The list is empty where it has neither.
    """
    if "PLAIN" in mechanisms:
        return [b"AUTH PLAIN " + b64encode(f"\0{user}\0{password}".encode())]
    if "LOGIN" in mechanisms:
        return [b"AUTH LOGIN", b64encode(user.encode()), b64encode(password.encode())]
    return []


# A connection: lines out, replies in, TLS.
#
# Rules: what the server sends waits until it is read, also after the end of the connection: LMTP gives one reply
# after the other to one message, and a server may close behind the last one. A server that sends much and is not
# asked is not read. One timer serves all deadlines, because most replies are here long before theirs.

_MAX_UNREAD_BYTES = 64 * 1024
_CONTROL_CHARACTER = re.compile(rb"[\x00-\x1f\x7f]")
_MISSING_REPLY = SmtpReply(451, "4.4.2 The next mail server went away before its answer for this recipient")


class ConnectionLost(RelayUnavailable):
    """The connection ended before a reply came."""


class NextHopConnection(asyncio.Protocol):
    """One open connection; one task at a time waits for a reply.

    After a call that raised it must be dropped, since the reply may still come.
    """

    _transport: asyncio.Transport
    _socket_transport: asyncio.Transport  # below TLS; the same one without TLS

    def __init__(self, reply_timeout_seconds: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._reply_timeout_seconds = reply_timeout_seconds
        self._replies = SmtpReplyReader()
        self._news: asyncio.Future[None] | None = None
        self._room = asyncio.Event()
        self._room.set()
        self._ended = self._paused = self._timed_out = False
        self._deadline = math.inf  # of the reply that is waited for, on the clock of the loop
        self._timer: asyncio.TimerHandle | None = None
        self.reused = False

    # What the event loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note the transport."""
        self._transport = self._socket_transport = cast(
            "asyncio.Transport", transport
        )  # uvloop's is not by inheritance

    def data_received(self, data: bytes) -> None:
        """Keep what the server sent until somebody asks for it."""
        self._replies.feed(data)
        if not self._paused and self._replies.unread_bytes > _MAX_UNREAD_BYTES:
            self._transport.pause_reading()
            self._paused = True
        self._wake_reader()

    def eof_received(self) -> None:
        """The server says no more; the transport closes."""
        self.connection_lost(None)

    def connection_lost(self, error: Exception | None) -> None:
        """No byte comes any more, and none can be sent."""
        self._ended = True
        self._room.set()
        self._wake_reader()

    def pause_writing(self) -> None:
        """Let writers wait."""
        self._room.clear()

    def resume_writing(self) -> None:
        """Let writers go on."""
        self._room.set()

    def _wake_reader(self) -> None:
        if self._news and not self._news.done():
            self._news.set_result(None)

    # What its user calls

    @property
    def _is_open(self) -> bool:
        return not self._ended and not self._transport.is_closing()

    @property
    def alive(self) -> bool:
        """Whether the connection is open and the next hop has said nothing unasked, as far as is known."""
        return self._is_open and not self._replies.has_unread_bytes

    @property
    def own_address(self) -> str:
        """Our IP address on this connection; empty on a unix socket."""
        name = self._socket_transport.get_extra_info("sockname")
        return str(name[0]) if isinstance(name, tuple) else ""

    async def greeting(self) -> SmtpReply:
        """Return the greeting. Raises ``RelayUnavailable``."""
        return await self._last_reply(2)

    async def start_tls(self, context: ssl.SSLContext, server_name: str) -> None:
        """Encrypt the connection from here on. Raises ``OSError`` (``ssl.SSLError``) or ``ConnectionLost``.

        What came in plain text before belongs to the session without TLS: where there is any, somebody on the way
        may have put it there (RFC 3207 6), and the connection ends.
        """
        if not self.alive:
            self._socket_transport.abort()
            raise ConnectionLost("the next hop sent data before TLS began")
        transport = await self._loop.start_tls(self._socket_transport, self, context, server_hostname=server_name)
        assert transport is not None
        self._transport = transport

    async def command(self, line: bytes, positive: int = 2) -> SmtpReply:
        """Send one command and return its reply.

        ``positive`` is the first digit of the reply that means yes. Raises ``RelayUnavailable``, and as one kind
        of it ``ConnectionLost``.
        """
        if _CONTROL_CHARACTER.search(line):
            raise ValueError("a control character in a command")
        self._ask(line + b"\r\n")
        reply = await self._last_reply(positive)
        if reply.code == 421 and self.reused:
            raise ConnectionLost("the next hop closed an idle connection with a 421")
        return reply

    async def send_content(
        self, stuffed_pieces: Sequence[bytes | memoryview], reply_count: int = 1
    ) -> tuple[SmtpReply, ...]:
        """Send the message with its final dot, after the 354, and return its ``reply_count`` replies in order.

        The next hop may refuse the message before its end: then there is one reply for all recipients. If it goes
        away after some of the replies, those that it gave count, and the others are 451. Raises
        ``RelayUnavailable`` where it gives none.
        """
        first, *rest = stuffed_pieces
        self._ask(first)
        writing = self._loop.create_task(self._write_in_turns(rest)) if rest else None
        try:
            replies = [await self._reply(2)]
            is_written = writing is None or (writing.done() and writing.result())
        finally:
            if writing:
                writing.cancel()
        unsent = (self._transport.get_write_buffer_size(), self._socket_transport.get_write_buffer_size())
        if not is_written or any(unsent):
            self.drop()
            if replies[0].accepted:
                raise RelayUnavailable("the next hop accepted a message before its end")
            return tuple(replies)
        try:
            while len(replies) < reply_count and replies[-1].code != 421:
                replies.append(await self._reply(2))
        except RelayUnavailable:
            self.drop()
        self._drop_if_unread()
        return (*replies, *[_MISSING_REPLY] * (reply_count - len(replies)))

    async def _write_in_turns(self, pieces: Sequence[bytes | memoryview]) -> bool:
        """Write the pieces and let other tasks run in between; return whether all of them were written.

        20 MB that are written at once are one step of the event loop, in which the kernel copies all of them.
        """
        try:
            for piece in pieces:
                view = memoryview(piece)
                for start in range(0, len(view), PIECE_BYTES):
                    await asyncio.sleep(0)
                    await self._room.wait()
                    self.write(view[start : start + PIECE_BYTES])
        except ConnectionLost:
            return False  # whoever waits for the reply learns that
        return True

    def write(self, data: bytes | memoryview) -> None:
        """Send ``data`` without a wait. Raises ``ConnectionLost``."""
        if not self._is_open:
            raise ConnectionLost("the next hop closed the connection")
        self._transport.write(data)

    def _ask(self, data: bytes | memoryview) -> None:
        """Send what asks for a reply; what the next hop says before it is none."""
        if self._replies.has_unread_bytes:
            self.drop()
            raise ConnectionLost("the next hop sent an unsolicited reply")
        self.write(data)

    async def _last_reply(self, positive: int) -> SmtpReply:
        reply = await self._reply(positive)
        self._drop_if_unread()
        return reply

    async def _reply(self, positive: int) -> SmtpReply:
        self._deadline = self._loop.time() + self._reply_timeout_seconds
        if self._timer is None:
            self._timer = self._loop.call_later(self._reply_timeout_seconds, self._on_timer)
        try:
            reply = await self._next_reply()
        except ConnectionLost as error:
            if self._timed_out:
                raise RelayUnavailable("the next hop did not reply in time") from error
            raise
        except MalformedReply as error:
            raise RelayUnavailable(f"the next hop's reply is not usable: {error}") from error
        finally:
            self._deadline = math.inf
        if reply.code // 100 not in (positive, 4, 5):
            raise RelayUnavailable(f"the next hop replied out of turn: {reply}")
        if reply.code == 421:  # the server closes the connection after it, RFC 5321 3.8
            self.drop()
        return reply

    async def _next_reply(self) -> SmtpReply:
        while (reply := self._replies.next_reply()) is None:
            if self._ended:
                raise ConnectionLost("the next hop closed the connection")
            self._news = self._loop.create_future()
            if self._paused:
                self._paused = False
                self._transport.resume_reading()
            try:
                await self._news
            finally:
                self._news = None
        return reply

    def _drop_if_unread(self) -> None:
        """Close where a reply more came at once, which would answer the next command."""
        if self._replies.has_unread_bytes:
            self.drop()

    def _on_timer(self) -> None:
        """End the wait whose deadline has passed, or set the timer again for the reply that is waited for now."""
        self._timer = None
        left = self._deadline - self._loop.time()
        if left <= 0:
            self._timed_out = True
            self.drop()
        elif left < math.inf:
            self._timer = self._loop.call_later(left, self._on_timer)

    def quit(self) -> None:
        """Send QUIT and close without a wait for the reply."""
        if self._is_open:
            self.write(b"QUIT\r\n")
        self._cancel_timer()
        self._transport.close()

    def drop(self) -> None:
        """Close, and send nothing that still waits to be sent: a message that was given up must not arrive."""
        self._cancel_timer()
        self._socket_transport.abort()

    def _cancel_timer(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None


# The beginning of a connection to the next hop: greeting, EHLO or LHLO, TLS and the login.
#
# Rules: after STARTTLS only what the server says under TLS counts, its extensions included (RFC 3207 4.2). Plain
# text takes the place of TLS only in the mode ``may``, and there only where the server does not offer STARTTLS
# or refuses it; TLS that fails ends the connection in every mode. What is said about a login names no user, no
# password and no words of the server, which may repeat them.

UNREACHABLE = "cannot be reached"


class NotOpened(RelayUnavailable):
    """No connection could be opened; ``problem`` says why without hosts."""

    def __init__(self, text: str, problem: str = UNREACHABLE) -> None:
        super().__init__(text)
        self.problem = problem


def make_tls_context(relay: RelaySettings) -> ssl.SSLContext | None:
    """Return the context of new connections; None without TLS. The authorities are read from files.

    Raises ``OSError``.
    """
    if relay.tls is TlsLevel.OFF:
        return None
    context = ssl.create_default_context(cafile=relay.tls_ca_file)
    if relay.tls is not TlsLevel.VERIFY:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


async def open_connection(
    relay: RelaySettings, context: ssl.SSLContext | None
) -> tuple[NextHopConnection, frozenset[str]]:
    """Return a new connection that is ready for mail, and the keywords of its extensions in upper case.

    ``relay`` names a server, and ``context`` is that of ``make_tls_context``. Raises ``NotOpened``.
    """
    server = relay.server
    try:
        connection = await _connect(server.address, relay.reply_timeout_seconds)
        try:
            extensions = await _begin_session(connection, relay, context)
        except BaseException:
            connection.drop()
            raise
    except NotOpened as error:
        raise NotOpened(f"cannot connect to {server.address}: {error}", error.problem) from error
    except (RelayUnavailable, OSError) as error:
        raise NotOpened(f"cannot connect to {server.address}: {error}") from error
    return connection, frozenset(extensions)


async def _connect(address: TcpAddress | UnixAddress, reply_timeout_seconds: float) -> NextHopConnection:
    loop = asyncio.get_running_loop()
    make = partial(NextHopConnection, reply_timeout_seconds)
    if isinstance(address, UnixAddress):
        _, connection = await loop.create_unix_connection(make, str(address.path))
    else:
        _, connection = await loop.create_connection(make, address.host, address.port)
    return connection


async def _begin_session(
    connection: NextHopConnection, relay: RelaySettings, context: ssl.SSLContext | None
) -> Mapping[str, tuple[str, ...]]:
    server = relay.server
    verb = "LHLO" if server.protocol == "lmtp" else "EHLO"
    has_implicit_tls = server.protocol == "smtps"
    if has_implicit_tls:
        await _encrypt(connection, server, context)
    greeting = await connection.greeting()
    if greeting.code != 220:
        raise NotOpened(f"its greeting is {greeting}")
    extensions = await _greet(connection, verb)
    if context and not has_implicit_tls and await _upgrade(connection, relay, context, extensions):
        extensions = await _greet(connection, verb)
    if relay.user_file and relay.password_file:
        user, password = (file.secret.get_secret_value() for file in (relay.user_file, relay.password_file))
        await _log_in(connection, auth_lines(extensions.get("AUTH", ()), user, password))
    return extensions


async def _greet(connection: NextHopConnection, verb: str) -> Mapping[str, tuple[str, ...]]:
    reply = await connection.command(f"{verb} {_ehlo_name(connection.own_address)}".encode("ascii"))
    if not reply.accepted:
        raise NotOpened(f"{verb} is refused: {reply}")
    return ehlo_extensions(reply.text)


async def _upgrade(
    connection: NextHopConnection,
    relay: RelaySettings,
    context: ssl.SSLContext,
    extensions: Mapping[str, tuple[str, ...]],
) -> bool:
    """Begin TLS by STARTTLS, and return whether it has begun."""
    refusal = "STARTTLS is not offered"
    if "STARTTLS" in extensions:
        reply = await connection.command(b"STARTTLS")
        if reply.accepted:
            await _encrypt(connection, relay.server, context)
            return True
        refusal = f"STARTTLS is refused: {reply}"
    if relay.tls is not TlsLevel.MAY:
        raise NotOpened(refusal, "offers no TLS")
    return False


async def _encrypt(
    connection: NextHopConnection, server: ServerNextHopSetting, context: ssl.SSLContext | None
) -> None:
    assert context is not None
    assert isinstance(server.address, TcpAddress)
    try:
        await connection.start_tls(context, server.address.host)
    except ssl.SSLCertVerificationError as error:
        raise NotOpened(
            f"its certificate is refused: {error.verify_message}", "has no valid certificate"
        ) from error
    except OSError as error:
        raise NotOpened(f"TLS failed: {error}", "TLS failed") from error


async def _log_in(connection: NextHopConnection, lines: Sequence[bytes]) -> None:
    if not lines:
        raise NotOpened("it offers neither AUTH PLAIN nor AUTH LOGIN", "offers no login")
    for number, line in enumerate(lines, start=1):
        try:
            reply = await connection.command(line, positive=2 if number == len(lines) else 3)
        except RelayUnavailable:
            raise NotOpened("its reply to the login is not usable", "refuses the login") from None
        if reply.code >= 400:
            raise NotOpened(f"the login is refused with a {reply.code}", "refuses the login")


def _ehlo_name(address: str) -> str:
    """Return our address as the argument of EHLO (RFC 5321 4.1.3); a name would need a look-up in the DNS."""
    if not address:
        return "localhost"
    return f"[IPv6:{address.partition('%')[0]}]" if ":" in address else f"[{address}]"


# The next hop: its connections are lent to transactions, kept open for a while, and bounded in number.

_MAX_CONNECTIONS = 200
_MAX_IDLE_SECONDS = 30.0

# Offered while the next hop was never reached: mail for it gets a 451 anyway, while a client that misses SMTPUTF8
# or 8BITMIME would bounce the mail that needs them.
USUAL_FEATURES = frozenset({"8BITMIME", "DSN", "ENHANCEDSTATUSCODES", "PIPELINING", "SIZE", "SMTPUTF8"})

_CONTROL_REFUSED = SmtpReply(501, "5.5.4 Control characters are not allowed in an address or a parameter")


class SmtpNextHop:
    """The server that ``relay`` names, over SMTP or LMTP. The connection that came back last is lent first."""

    connect_seconds = 10.0
    """The time to reach the server, which is near, and for a free connection: the client gets a 451 after it."""

    def __init__(
        self,
        relay: RelaySettings,
        *,
        max_connections: int = _MAX_CONNECTIONS,
        max_idle_seconds: float = _MAX_IDLE_SECONDS,
    ) -> None:
        self.answers_each_recipient = relay.server.protocol == "lmtp"
        self._relay = relay
        self._max_idle_seconds = max_idle_seconds
        self._tls_context: ssl.SSLContext | None = None
        self._slots = asyncio.Semaphore(max_connections)
        self._idle: dict[NextHopConnection, asyncio.TimerHandle] = {}
        self._closed = False
        self._features: frozenset[str] | None = None

    async def features(self) -> frozenset[str]:
        """Return the keywords of the last EHLO; connect where there was none yet. Never raises."""
        if self._features is None:
            await self.problem()
        return self._features or USUAL_FEATURES

    async def begin(self, sender: SmtpPath) -> SmtpTransaction:
        """Send MAIL. Raises ``RelayRefused`` with the next hop's reply, or ``RelayUnavailable``."""
        transaction = SmtpTransaction(self, await self._lend())
        reply = await transaction.send_path(b"MAIL FROM:", sender)
        if not reply.accepted:
            transaction.end(keep=True)
            raise RelayRefused(reply.code, reply.text)
        return transaction

    async def problem(self) -> str | None:
        """Return None if the next hop answers in time; an idle connection is used where there is one."""
        if self._slots.locked():
            return None  # all connections were opened, and are in use
        try:
            async with asyncio.timeout(self.connect_seconds):
                transaction = SmtpTransaction(self, await self._lend())
                reply = await transaction.exchange(b"NOOP")
        except NotOpened as error:
            return error.problem
        except (RelayUnavailable, TimeoutError):
            return UNREACHABLE
        transaction.end(keep=True)
        return None if reply.accepted else UNREACHABLE

    def read_authorities_again(self) -> None:
        """Read the authorities again for the next connection; those that are open stay."""
        self._tls_context = None

    async def close(self) -> None:
        """Close the idle connections; a lent one is closed when it comes back."""
        self._closed = True
        while connection := self._idle_connection():
            connection.quit()

    async def _lend(self) -> NextHopConnection:
        """Return an idle connection, or else a new one, once one may be lent. Raises ``RelayUnavailable``."""
        try:
            if self._slots.locked():
                async with asyncio.timeout(self.connect_seconds):
                    await self._slots.acquire()
            else:
                await self._slots.acquire()  # at once
        except TimeoutError as error:
            raise RelayUnavailable("all connections to the next hop are busy") from error
        try:
            return self._idle_connection() or await self.open()
        except BaseException:
            self._slots.release()
            raise

    def give_back(self, connection: NextHopConnection) -> None:
        """Take a lent connection back, and keep it open for a while if it still is."""
        self._slots.release()
        if self._closed or not connection.alive:
            connection.quit()
            return
        connection.reused = True
        loop = asyncio.get_running_loop()
        self._idle[connection] = loop.call_later(self._max_idle_seconds, self._close_expired, connection)

    def _idle_connection(self) -> NextHopConnection | None:
        while self._idle:
            connection, timer = self._idle.popitem()
            timer.cancel()
            if connection.alive:
                return connection
            connection.drop()  # else its timer would keep it until the deadline of a reply
        return None

    def _close_expired(self, connection: NextHopConnection) -> None:
        del self._idle[connection]
        connection.quit()

    async def open(self) -> NextHopConnection:
        """Return a new connection that is ready for mail. Raises ``RelayUnavailable``."""
        if self._closed:
            raise RelayUnavailable("the relay is closed")
        try:
            async with asyncio.timeout(self.connect_seconds):
                connection, self._features = await open_connection(self._relay, await self._context())
        except TimeoutError as error:
            raise NotOpened(f"cannot connect to {self._relay.server.address}: timed out") from error
        return connection

    async def _context(self) -> ssl.SSLContext | None:
        """Return the context for TLS; one serves all connections, since reading the authorities takes long."""
        if self._tls_context is None and self._relay.tls is not TlsLevel.OFF:
            try:
                self._tls_context = await asyncio.to_thread(make_tls_context, self._relay)
            except OSError as error:
                text = f"the certificates in {self._relay.tls_ca_file} cannot be read: {error}"
                raise NotOpened(text) from error
        return self._tls_context


class SmtpTransaction:
    """A message on its way, with the commands that the next hop has accepted, in case they have to be repeated."""

    def __init__(self, next_hop: SmtpNextHop, connection: NextHopConnection) -> None:
        self._next_hop = next_hop
        self._connection: NextHopConnection | None = connection
        self._accepted_commands: list[bytes] = []

    async def rcpt(self, recipient: SmtpPath) -> SmtpReply:
        """Return the next hop's reply to one recipient, whatever it is. Raises ``RelayUnavailable``."""
        return await self.send_path(b"RCPT TO:", recipient)

    async def data(self, content: bytes, fields: bytes = b"") -> DataReplies:
        """Return the next hop's final replies, to DATA or to the message. Raises ``RelayUnavailable``."""
        try:
            stuffed_pieces = await dot_stuffed_pieces(content, fields)
            reply = await self.exchange(b"DATA", positive=3)
            if reply.code >= 400:
                await self.abort()
                return DataReplies((reply,))
            assert self._connection is not None
            recipient_count = len(self._accepted_commands) - 1  # the first one is MAIL
            replies = await self._connection.send_content(
                stuffed_pieces, recipient_count if self._next_hop.answers_each_recipient else 1
            )
        except BaseException:
            self.end(keep=False)
            raise
        self.end(keep=True)
        return DataReplies(replies)

    async def abort(self) -> None:
        """Reset the transaction and keep the connection, or else close it."""
        if self._connection is None:
            return
        keep = False
        try:
            async with asyncio.timeout(self._next_hop.connect_seconds):
                keep = (await self._connection.command(b"RSET")).accepted
        except (RelayUnavailable, TimeoutError):
            pass  # the connection is closed, and that aborts too
        finally:
            self.end(keep=keep)

    async def send_path(self, verb: bytes, path: SmtpPath) -> SmtpReply:
        """Return the reply to MAIL or RCPT; an accepted command becomes part of the transaction."""
        line = verb + " ".join((f"<{path.address}>", *path.parameters)).encode("utf-8", "surrogateescape")
        if _CONTROL_CHARACTER.search(line):
            return _CONTROL_REFUSED
        reply = await self.exchange(line)
        if reply.accepted:
            self._accepted_commands.append(line)
        return reply

    async def exchange(self, line: bytes, positive: int = 2) -> SmtpReply:
        """Send one command and return its reply.

        A reused connection that turns out to be dead is replaced, once, and the accepted commands are repeated.
        """
        if self._connection is None:
            raise RelayUnavailable("the transaction has ended")
        try:
            try:
                return await self._connection.command(line, positive)
            except ConnectionLost:
                if not self._connection.reused:
                    raise
                self._connection.drop()
                self._connection = await self._next_hop.open()
                await self._repeat_commands(self._connection)
                return await self._connection.command(line, positive)
        except BaseException:
            self.end(keep=False)
            raise

    def end(self, *, keep: bool) -> None:
        """End the transaction: give the connection back, closed unless ``keep``."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if not keep:
            connection.drop()
        self._next_hop.give_back(connection)

    async def _repeat_commands(self, connection: NextHopConnection) -> None:
        for line in self._accepted_commands:
            reply = await connection.command(line)
            if not reply.accepted:
                raise RelayUnavailable(f"the next hop withdrew an earlier reply: {reply}")


async def dot_stuffed_pieces(content: bytes, fields: bytes) -> list[bytes | memoryview]:
    """Return the fields and the content as DATA carries them, with the final dot (RFC 5321 4.5.2).

    Other tasks run between two pieces of a large message. Pieces that need no dots are no copies.
    """
    end_of_data = b".\r\n" if not content or content.endswith(b"\r\n") else b"\r\n.\r\n"
    if len(content) <= PIECE_BYTES:  # as it usually is: one piece needs one packet, not several
        first_dot = b"." if content.startswith(b".") else b""
        return [b"".join((fields, first_dot, replace_leading_dots(content, b".."), end_of_data))]
    stuffed_pieces: list[bytes | memoryview] = [fields]
    view = memoryview(content)
    for start, end in line_spans(content, len(content)):
        if content.startswith(b".", start) and content[start - 1 : start] in {b"", b"\n"}:
            stuffed_pieces.append(b".")
        needs_dots = content.find(b"\r\n.", start, end) >= 0
        stuffed_pieces.append(content[start:end].replace(b"\r\n.", b"\r\n..") if needs_dots else view[start:end])
        if start:
            await asyncio.sleep(0)
    return [*stuffed_pieces, end_of_data]
