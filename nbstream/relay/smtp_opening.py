"""The beginning of a connection to the next hop: greeting, EHLO or LHLO, TLS and the login.

Rules: after STARTTLS only what the server says under TLS counts, its extensions included (RFC 3207 4.2). Plain
text takes the place of TLS only in the mode ``may``, and there only where the server does not offer STARTTLS or
refuses it; TLS that fails ends the connection in every mode. What is said about a login names no user, no password
and no words of the server, which may repeat them.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING

from nbstream.errors import RelayUnavailable
from nbstream.relay.next_hop_connection import NextHopConnection
from nbstream.relay.smtp_server import RelayLogin, RelayTls, SmtpServer, TlsMode
from nbstream.relay.smtp_stream import SmtpStream
from nbstream.wire.smtp_client import auth_lines, ehlo_extensions

if TYPE_CHECKING:
    from collections.abc import Mapping

UNREACHABLE = "cannot be reached"


class NotOpened(RelayUnavailable):
    """No connection could be opened; ``problem`` says why without hosts."""

    def __init__(self, text: str, problem: str = UNREACHABLE) -> None:
        super().__init__(text)
        self.problem = problem


async def open_connection(
    server: SmtpServer, context: ssl.SSLContext | None, reply_timeout_seconds: float
) -> tuple[NextHopConnection, frozenset[str]]:
    """Return a new connection that is ready for mail, and the keywords of its extensions in upper case.

    ``context`` is needed where the server has ``tls``. Raises ``NotOpened``.
    """
    try:
        connection = NextHopConnection(await _connect(server), reply_timeout_seconds)
        try:
            extensions = await _begin_session(connection, server, context)
        except BaseException:
            connection.drop()
            raise
    except NotOpened as error:
        raise NotOpened(f"no way to {server}: {error}", error.problem) from error
    except (RelayUnavailable, OSError) as error:
        raise NotOpened(f"no way to {server}: {error}") from error
    return connection, frozenset(extensions)


async def _connect(server: SmtpServer) -> SmtpStream:
    loop = asyncio.get_running_loop()
    if server.socket_path:
        _, stream = await loop.create_unix_connection(SmtpStream, server.socket_path)
    else:
        _, stream = await loop.create_connection(SmtpStream, server.host, server.port)
    return stream


async def _begin_session(
    connection: NextHopConnection, server: SmtpServer, context: ssl.SSLContext | None
) -> Mapping[str, tuple[str, ...]]:
    tls = server.tls
    if tls and tls.implicit:
        await _encrypt(connection, tls, context)
    greeting = await connection.greeting()
    if greeting.code != 220:
        raise NotOpened(f"its greeting is {greeting}")
    extensions = await _greet(connection, server)
    if tls and not tls.implicit and await _upgrade(connection, tls, context, extensions):
        extensions = await _greet(connection, server)
    if server.login:
        await _log_in(connection, server.login, extensions.get("AUTH", ()))
    return extensions


async def _greet(connection: NextHopConnection, server: SmtpServer) -> Mapping[str, tuple[str, ...]]:
    verb = "LHLO" if server.lmtp else "EHLO"
    reply = await connection.command(f"{verb} {_ehlo_name(connection.own_address)}".encode("ascii"))
    if not reply.accepted:
        raise NotOpened(f"{verb} is refused: {reply}")
    return ehlo_extensions(reply.text)


async def _upgrade(
    connection: NextHopConnection,
    tls: RelayTls,
    context: ssl.SSLContext | None,
    extensions: Mapping[str, tuple[str, ...]],
) -> bool:
    """Begin TLS by STARTTLS, and return whether it has begun."""
    refusal = "STARTTLS is not offered"
    if "STARTTLS" in extensions:
        reply = await connection.command(b"STARTTLS")
        if reply.accepted:
            await _encrypt(connection, tls, context)
            return True
        refusal = f"STARTTLS is refused: {reply}"
    if tls.mode is not TlsMode.MAY:
        raise NotOpened(refusal, "offers no TLS")
    return False


async def _encrypt(connection: NextHopConnection, tls: RelayTls, context: ssl.SSLContext | None) -> None:
    assert context is not None
    try:
        await connection.start_tls(context, tls.server_name)
    except ssl.SSLCertVerificationError as error:
        raise NotOpened(
            f"its certificate is refused: {error.verify_message}", "has no valid certificate"
        ) from error
    except OSError as error:
        raise NotOpened(f"TLS fails: {error}", "cannot begin TLS") from error


async def _log_in(connection: NextHopConnection, login: RelayLogin, mechanisms: tuple[str, ...]) -> None:
    lines = auth_lines(mechanisms, login.user, login.password)
    if not lines:
        raise NotOpened("it offers neither AUTH PLAIN nor AUTH LOGIN", "offers no login")
    for number, line in enumerate(lines, start=1):
        try:
            reply = await connection.command(line, positive=2 if number == len(lines) else 3)
        except RelayUnavailable:
            raise NotOpened("it gives no usable answer to the login", "refuses the login") from None
        if reply.code >= 400:
            raise NotOpened(f"the login is refused with a {reply.code}", "refuses the login")


def _ehlo_name(address: str) -> str:
    """Return our address as the argument of EHLO (RFC 5321 4.1.3); a name would need a look-up in the DNS."""
    if not address:
        return "localhost"
    return f"[IPv6:{address.partition('%')[0]}]" if ":" in address else f"[{address}]"
