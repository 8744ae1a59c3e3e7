"""The client side of IMAP: a login, over TLS or on this machine, and the messages of a folder that is selected.

Rules: IMAPClient speaks the protocol, over a connection that has a limit in time and in bytes for each command,
whatever the server sends. All of it blocks: where there is an event loop, it goes on in a thread. The sizes of
messages are read first, then their contents, some with each command.
"""

from __future__ import annotations

import imaplib
import ipaddress
import re
import socket
import ssl
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from imapclient import IMAPClient

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


IMAP_PORTS = {"imap": 143, "imaps": 993}
"""The usual port of each scheme of a URL."""

_CONNECT_SECONDS = 30.0
_COMMAND_SECONDS = 300.0
_READ_BYTES = 256 << 10
_TEXT_BYTES = 1 << 20
_LINE_COST = 200  # the memory that a line takes beside its bytes
_NOT_QUOTABLE = re.compile(r"[^ -~]")


@dataclass(frozen=True, slots=True)
class ImapAccount:
    """A user at a server. With ``implicit_tls`` TLS begins with the connection, as on port 993."""

    host: str
    port: int
    implicit_tls: bool
    user: str

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        scheme = "imaps" if self.implicit_tls else "imap"
        port = "" if self.port == IMAP_PORTS[scheme] else f":{self.port}"
        return f"{scheme}://{quote(self.user)}@{host}{port}"


class ImapError(Exception):
    """The server is away, refuses something, or does not speak IMAP; the text says which."""


class ImapRefused(ImapError):
    """The server refuses the command ``command`` with the words ``reply``."""

    def __init__(self, command: str, reply: str) -> None:
        super().__init__(f"the server refuses {command}: {reply}")
        self.command = command
        self.reply = reply


class _LimitedConnection(imaplib.IMAP4):
    """A connection with a limit in time and in bytes for what the server answers to each command.

    What the server refuses, and that it ends the connection, is an ``ImapError`` with its own words.
    """

    def __init__(self, account: ImapAccount, tls: ssl.SSLContext, seconds: float | None) -> None:
        self._account = account
        self._tls = tls
        self._seconds = seconds
        self._buffer = bytearray()
        self._is_greeted = False
        self.begin("CAPABILITY", _TEXT_BYTES, 0)
        super().__init__(account.host, account.port)

    def begin(self, name: str, text_bytes: int, literal_bytes: int) -> None:
        """Set the limits of the next command; ``text_bytes`` is that of all lines, with 200 more for each."""
        self._name = name
        self._deadline = time.monotonic() + (
            self._seconds or (_COMMAND_SECONDS if self._is_greeted else _CONNECT_SECONDS)
        )
        self._text_limit = self._text_left = text_bytes
        self._literal_limit = self._literals_left = literal_bytes
        self.untagged_responses = {}  # what nobody has asked for would grow

    @property
    def is_private(self) -> bool:
        """Whether there is TLS, or no network in between."""
        return isinstance(self.sock, ssl.SSLSocket) or _is_on_this_machine(self.sock)

    def read(self, size: int) -> bytes:
        """Read a literal, which is refused before its first byte where it is too large."""
        self._literals_left -= size
        if self._literals_left < 0:
            raise ImapError(f"the answer is larger than {self._literal_limit} bytes")
        while len(self._buffer) < size:
            self._receive()
        return self._take(size)

    def readline(self) -> bytes:
        """Read a line, and raise ``ImapError`` for one that refuses or ends something."""
        searched, self._text_left = 0, self._text_left - _LINE_COST
        while (end := self._buffer.find(b"\n", searched) + 1) == 0:
            searched = len(self._buffer)
            self._check_text(searched)
            self._receive()
        self._check_text(end)
        self._text_left -= end
        line = self._take(end)
        self._check_line(line.decode("latin-1").rstrip("\r\n"))
        return line

    def send(self, data: ReadableBuffer) -> None:
        """Send a part of a command."""
        self._limit_wait()
        self.sock.sendall(data)

    def _create_socket(self, timeout: float | None = None) -> socket.socket:  # as imaplib's own classes do it
        connection = socket.create_connection((self.host, self.port), _CONNECT_SECONDS)
        if not self._account.implicit_tls:
            return connection
        return self._tls.wrap_socket(connection, server_hostname=self.host)

    def _check_text(self, size: int) -> None:
        if size > self._text_left:
            raise ImapError(f"the answer is larger than {self._text_limit} bytes")

    def _check_line(self, line: str) -> None:
        first, _, rest = line.partition(" ")
        is_ok = rest.upper().startswith("OK")
        if not self._is_greeted:
            if not is_ok:
                raise ImapError(f"the server does not greet: {line[:200]}")
            self._is_greeted = True
        elif line.upper().startswith("* BYE"):
            raise ImapError(f"the server ends the connection: {line[6:200]}")
        elif first.encode("latin-1").startswith(self.tagpre) and not is_ok:  # type: ignore[arg-type]  # it is bytes
            raise ImapRefused(self._name, rest[:200])

    def _receive(self) -> None:
        """Wait for more bytes; only for one before STARTTLS, so that none can pass for an answer within TLS."""
        self._limit_wait()
        data = self.sock.recv(_READ_BYTES if self.is_private else 1)
        if not data:
            raise ImapError("the server has closed the connection")
        self._buffer += data

    def _take(self, size: int) -> bytes:
        taken = bytes(memoryview(self._buffer)[:size])
        del self._buffer[:size]
        return taken

    def _limit_wait(self) -> None:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise ImapError("the server is too slow")
        self.sock.settimeout(left)


def _is_on_this_machine(connection: socket.socket) -> bool:
    return ipaddress.ip_address(connection.getpeername()[0].partition("%")[0]).is_loopback


class LimitedClient(IMAPClient):  # type: ignore[misc]  # it has no types
    """IMAPClient over a connection that has limits for each command."""

    def __init__(self, account: ImapAccount, tls: ssl.SSLContext, seconds: float | None = None) -> None:
        self._account = account
        self._tls = tls
        self._seconds = seconds
        super().__init__(account.host, account.port, ssl=False)
        self.connection.debug = 0  # IMAPClient has all that comes formatted for a log that nobody reads

    def _create_IMAP4(self) -> _LimitedConnection:  # noqa: N802 - IMAPClient calls it
        self.connection = _LimitedConnection(self._account, self._tls, self._seconds)
        return self.connection

    @contextmanager
    def command(self, name: str, text_bytes: int = _TEXT_BYTES, literal_bytes: int = 0) -> Iterator[None]:
        """Give the command that is sent inside its limits. Raises ``ImapError`` for whatever goes wrong."""
        self.connection.begin(name, text_bytes, literal_bytes)
        with _translated_errors():
            yield


@contextmanager
def _translated_errors() -> Iterator[None]:
    try:
        yield
    except ImapError:
        raise
    except ssl.SSLCertVerificationError as error:
        raise ImapError(f"the certificate of the server cannot be trusted: {error.verify_message}") from error
    except OSError as error:
        raise ImapError(error.strerror or str(error)) from error
    except Exception as error:  # which ones the library raises for what is no IMAP is nowhere said
        raise ImapError(f"this is not IMAP: {str(error)[:200]}") from error


@contextmanager
def connected(
    account: ImapAccount, ca_file: Path | None, seconds: float | None = None
) -> Iterator[tuple[LimitedClient, ssl.SSLContext]]:
    """Connect for the block, with TLS from the beginning where that is so; see ``logged_in`` for the arguments.

    Raises ``ImapError``.
    """
    try:
        tls = ssl.create_default_context(cafile=ca_file)
    except OSError as error:
        raise ImapError(f"{ca_file}: no certificates can be read from it") from error
    with _translated_errors():
        try:
            client = LimitedClient(account, tls, seconds)
        except UnicodeError as error:  # of a name that the DNS cannot have, such as one with two dots in a row
            raise ImapError(f"{account.host} is no name of a host") from error
    try:
        yield client, tls
    finally:
        with suppress(OSError):
            client.shutdown()


@contextmanager
def logged_in(
    account: ImapAccount, password: str, ca_file: Path | None, seconds: float | None = None
) -> Iterator[LimitedClient]:
    """Log in, for the block; ``ca_file`` has the certificates that are trusted, None stands for the system's.

    ``seconds`` is the limit of each command, None for one that also large folders keep. Raises ``ImapError``.
    """
    with connected(account, ca_file, seconds) as (client, tls):
        _log_in(client, account, password, tls)
        yield client


def _log_in(client: LimitedClient, account: ImapAccount, password: str, tls: ssl.SSLContext) -> None:
    """Log in, after STARTTLS where the password could be read on its way."""
    connection = client.connection
    if not connection.is_private:
        if "STARTTLS" not in connection.capabilities:
            raise ImapError("the server has no TLS, and is not on this machine: the password would be readable")
        with client.command("STARTTLS"):
            client.starttls(tls)
    if "AUTH=PLAIN" in connection.capabilities:
        with client.command("AUTHENTICATE"):
            client.plain_login(account.user, password)
        return
    if "LOGINDISABLED" in connection.capabilities:
        raise ImapError("the server has no way to log in by a password")
    if _NOT_QUOTABLE.search(account.user + password):
        raise ImapError("user name and password must be ASCII at this server")
    with client.command("LOGIN"):
        client.login(_quote(account.user), password)  # which imaplib quotes, but not the name


def _quote(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


MAX_MESSAGE_BYTES = 50 << 20
"""A larger message is left out and reported, as the listeners refuse it."""

UIDS_PER_COMMAND = 200

_BYTES_PER_COMMAND = 1 << 20
_FETCH_OVERHEAD = 1 << 16


def read_sizes(client: LimitedClient, uids: Sequence[int]) -> Mapping[int, int]:
    """Return the sizes of messages in bytes, by UID, but of those that have gone. Raises ``ImapError``."""
    with client.command("UID FETCH"):
        answer = client.fetch(uids, ["RFC822.SIZE"])
    sizes = {uid: items.get(b"RFC822.SIZE") for uid, items in answer.items()}
    return {uid: size for uid, size in sizes.items() if isinstance(size, int)}


def read_contents(client: LimitedClient, sizes: Mapping[int, int]) -> Iterator[tuple[int, bytes]]:
    """Yield UIDs and messages, some small ones with each command, without those that have gone meanwhile.

    ``sizes`` are what ``read_sizes`` returned, without those that are too large. Raises ``ImapError``.
    """
    group: list[int] = []
    group_bytes = 0
    for uid, size in [*sizes.items(), (0, _BYTES_PER_COMMAND)]:
        if group and group_bytes + size > _BYTES_PER_COMMAND:
            # Some servers count line ends as one byte, so that the size they tell is too small.
            limit = 2 * max(group_bytes, _BYTES_PER_COMMAND) + _FETCH_OVERHEAD
            with client.command("UID FETCH", literal_bytes=limit):
                answer = client.fetch(group, ["BODY.PEEK[]"])
            for known, items in answer.items():
                if isinstance(raw := items.get(b"BODY[]"), bytes):
                    yield known, raw
            group, group_bytes = [], 0
        group.append(uid)
        group_bytes += size
