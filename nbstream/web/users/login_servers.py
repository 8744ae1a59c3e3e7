"""Verifies a user's password at the server that knows it: Dovecot's auth service, or an IMAP server.

Rules: no password is stored, logged, or compared here. A wrong password, and a user who does not exist, are the
same answer. Dovecot names the user as its mailboxes do; an IMAP server does not say whom it has let in, so it is
who was asked for. Each login has a deadline, and only some go on at a time.

Dovecot's protocol for clients (doc.dovecot.org, "Dovecot Authentication Protocol", version 1.2): lines of fields
between tabs. Both sides begin with VERSION; the client sends CPID, a number that no other client has; the
server lists its mechanisms and ends with DONE. AUTH is answered by OK, FAIL or CONT.
"""

from __future__ import annotations

import asyncio
import base64
import ipaddress
import re
import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from nbstream.web.users.settings import DovecotLoginSetting

if TYPE_CHECKING:
    from nbstream.server.imap import ImapAccount
    from nbstream.web.users.settings import ImapLoginSetting, UserPageSettings

MAX_NAME_LENGTH = 320
MAX_PASSWORD_LENGTH = 1000

_Result = TypeVar("_Result")

_LOGIN_SECONDS = 30.0  # Dovecot answers a wrong password after two seconds, and later where there were many
_MAX_AT_ONCE = 32  # whoever guesses holds one for the seconds that a server delays them
_MAX_LINE_BYTES = 8192  # as Dovecot's own clients have it
_MAX_LINES = 100  # of the greeting
_ESCAPES = {b"0": b"\0", b"1": b"\1", b"t": b"\t", b"r": b"\r", b"n": b"\n"}
_ESCAPE = re.compile(rb"\x01(.)", re.DOTALL)


class LoginUnavailable(Exception):
    """Nobody can say now whether a password is right; the text is for the log."""


class LoginServer(Protocol):
    """A server that knows the passwords of the users."""

    async def find_user(self, name: str, password: str, client: str | None) -> str | None:
        """Return the name of the user; None if the password is wrong, or there is no such user.

        ``client`` is the IP address that the user comes from, None where it is not known. Raises
        ``LoginUnavailable``.
        """

    async def problem(self) -> str | None:
        """Return why nobody can log in now, None where the server answers."""

    def close(self) -> None:
        """End what the server is asked with."""


def make_login_server(settings: UserPageSettings) -> LoginServer | None:
    """Return the server of the settings, None where users log in by links alone."""
    match settings.login:
        case None:
            return None
        case DovecotLoginSetting(path):
            return DovecotLogin(path)
        case login:
            return ImapLogin(login)


class DovecotLogin:
    """Dovecot, at the socket of its auth service for clients."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at_once = asyncio.Semaphore(_MAX_AT_ONCE)

    async def find_user(self, name: str, password: str, client: str | None) -> str | None:
        """Return the name of the user as Dovecot's mailboxes have it. See ``LoginServer``."""
        async with self._greeted() as (reader, writer):
            writer.write(auth_request(name, password, client))
            return user_of_reply(await _read_fields(reader))

    async def problem(self) -> str | None:
        """Return why nobody can log in now. See ``LoginServer``."""
        try:
            async with self._greeted():
                return None
        except LoginUnavailable as error:
            return str(error)

    @asynccontextmanager
    async def _greeted(self) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """Open a connection on which both sides have greeted. Raises ``LoginUnavailable``, also for the block."""
        try:
            async with asyncio.timeout(_LOGIN_SECONDS), self._at_once:
                reader, writer = await asyncio.open_unix_connection(str(self._path), limit=_MAX_LINE_BYTES)
                try:
                    writer.write(greeting(secrets.randbelow(1 << 31)))
                    await _read_greeting(reader)
                    yield reader, writer
                finally:
                    writer.close()
        except TimeoutError as error:
            raise LoginUnavailable("Dovecot's auth service is too slow") from error
        except (OSError, ValueError) as error:  # ValueError: a line that is too long
            reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
            raise LoginUnavailable(f"Dovecot's auth service: {reason}") from error

    def close(self) -> None:
        """Do nothing: each login has a connection of its own."""


async def _read_greeting(reader: asyncio.StreamReader) -> None:
    for _ in range(_MAX_LINES):
        match await _read_fields(reader):
            case [b"VERSION", major, *_] if major != b"1":
                raise LoginUnavailable("Dovecot's auth service uses another version of the protocol")
            case [b"DONE", *_]:
                return
    raise LoginUnavailable("this is not Dovecot's auth service: its greeting does not end")


async def _read_fields(reader: asyncio.StreamReader) -> Sequence[bytes]:
    line = await reader.readline()
    if not line.endswith(b"\n"):
        raise LoginUnavailable("Dovecot's auth service has closed the connection")
    return line[:-1].split(b"\t")


def greeting(client_number: int) -> bytes:
    """Return what a client begins with; its number is one that no other client of the service has."""
    return b"VERSION\t1\t1\nCPID\t%d\n" % client_number


def auth_request(name: str, password: str, client: str | None) -> bytes:
    """Return the request to check a password by the mechanism PLAIN (RFC 4616)."""
    response = base64.b64encode(b"\0%b\0%b" % (name.encode(), password.encode()))
    fields = [b"AUTH", b"1", b"PLAIN", b"service=nbstream", b"secured", b"nologin"]
    address = ipaddress.ip_address(client) if client is not None else None
    if address is None or address.is_loopback:
        fields.append(b"no-penalty")  # of 15 seconds, for all whose address is not known, once somebody guesses
    else:
        fields.append(b"rip=%b" % str(address).encode())
    return b"\t".join([*fields, b"resp=%b" % response]) + b"\n"  # the response is the last field


def user_of_reply(fields: Sequence[bytes]) -> str | None:
    """Return the user whom an answer to the request lets in, None for nobody. Raises ``LoginUnavailable``."""
    match fields:
        case [b"OK", b"1", *values]:
            names = (value.removeprefix(b"user=") for value in values if value.startswith(b"user="))
            if name := next(names, b""):
                return _unescape(name).decode("utf-8", "replace")
        case [b"FAIL", b"1", *values] if b"temp" not in values and b"code=temp_fail" not in values:
            return None
    raise LoginUnavailable("Dovecot's auth service cannot verify the password")


def _unescape(value: bytes) -> bytes:
    return _ESCAPE.sub(lambda match: _ESCAPES.get(match[1], match[1]), value)


class ImapLogin:
    """An IMAP server, whose certificate the authorities of the system have signed."""

    def __init__(self, login: ImapLoginSetting) -> None:
        self._login = login
        # Threads of its own: a slow server must not take those that mail needs.
        self._threads = ThreadPoolExecutor(_MAX_AT_ONCE, thread_name_prefix="login")

    async def find_user(self, name: str, password: str, client: str | None) -> str | None:
        """Return ``name``, where the server lets it in. See ``LoginServer``."""
        return name if await self._in_thread(self._is_right, name, password) else None

    async def problem(self) -> str | None:
        """Return why nobody can log in now. See ``LoginServer``."""
        try:
            await self._in_thread(self._connect)
        except LoginUnavailable as error:
            return str(error)
        return None

    async def _in_thread(self, work: Callable[..., _Result], *arguments: str) -> _Result:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(_LOGIN_SECONDS):
                return await loop.run_in_executor(self._threads, work, *arguments)
        except TimeoutError as error:
            raise LoginUnavailable("the IMAP server is too slow") from error

    def _connect(self) -> None:
        from nbstream.server.imap import ImapError, connected  # noqa: PLC0415 - see _is_right

        try:
            with connected(self._account("nobody"), None, _LOGIN_SECONDS):
                pass
        except ImapError as error:
            raise LoginUnavailable(f"the IMAP server: {error}") from error

    def _account(self, name: str) -> ImapAccount:
        from nbstream.server.imap import ImapAccount  # noqa: PLC0415 - see _is_right

        address = self._login.address
        return ImapAccount(address.host, address.port, self._login.implicit_tls, name)

    def _is_right(self, name: str, password: str) -> bool:
        from nbstream.server.imap import ImapError, ImapRefused, logged_in  # noqa: PLC0415 - few daemons need it

        try:
            with logged_in(self._account(name), password, None, _LOGIN_SECONDS):
                return True
        except ImapRefused as error:
            is_of_login = error.command in {"AUTHENTICATE", "LOGIN"}
            if is_of_login and "[UNAVAILABLE]" not in error.reply.upper():  # RFC 5530
                return False
            raise LoginUnavailable("the IMAP server refuses all logins at the moment") from error
        except ImapError as error:
            raise LoginUnavailable(f"the IMAP server: {error}") from error

    def close(self) -> None:
        """End the threads, each at the end of its login."""
        self._threads.shutdown(wait=False, cancel_futures=True)
