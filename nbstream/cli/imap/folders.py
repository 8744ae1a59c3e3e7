"""The messages of IMAP folders, in the order of their UIDs.

Rules: nothing changes in a folder, neither flags nor messages (EXAMINE, BODY.PEEK). Messages that are marked as
deleted are left out. The password goes over TLS whose certificate is verified, or to this machine. IMAPClient
speaks the protocol, over a connection that has a limit in time and in bytes for each command, whatever the server
sends. The size of a message is asked before its content, and memory holds one message or some small ones.
"""

from __future__ import annotations

import getpass
import imaplib
import ipaddress
import re
import socket
import ssl
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from imapclient import IMAPClient

from nbstream.cli.imap.url import ImapAccount, ImapFolder
from nbstream.cli.message_files import FolderPosition, NamedMessage
from nbstream.errors import ConfigError, InputError
from nbstream.settings.values import read_secret_file

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

MAX_MESSAGE_BYTES = 50 << 20
"""A larger message is left out and reported, as the listeners refuse it."""

_MAX_UID = (1 << 32) - 1
_UIDS_PER_COMMAND = 200
_BYTES_PER_COMMAND = 1 << 20
_FETCH_OVERHEAD = 1 << 16

_CONNECT_SECONDS = 30.0
_COMMAND_SECONDS = 300.0
_READ_BYTES = 256 << 10
_TEXT_BYTES = 1 << 20
_SEARCH_BYTES = 4 << 20  # about half a million messages; for the worst such answer IMAPClient takes 400 MB
_LINE_COST = 200  # the memory that a line takes beside its bytes
_NOT_QUOTABLE = re.compile(r"[^ -~]")


class ImapError(Exception):
    """The server is away, refuses something, or does not speak IMAP; the text says which."""


class _LimitedConnection(imaplib.IMAP4):
    """A connection with a limit in time and in bytes for what the server answers to each command.

    What the server refuses, and that it ends the connection, is an ``ImapError`` with its own words.
    """

    def __init__(self, account: ImapAccount, tls: ssl.SSLContext) -> None:
        self._account = account
        self._tls = tls
        self._buffer = bytearray()
        self._is_greeted = False
        self.begin("CAPABILITY", _TEXT_BYTES, 0)
        super().__init__(account.host, account.port)

    def begin(self, name: str, text_bytes: int, literal_bytes: int) -> None:
        """Set the limits of the next command; ``text_bytes`` is that of all lines, with 200 more for each."""
        self._name = name
        self._deadline = time.monotonic() + (_COMMAND_SECONDS if self._is_greeted else _CONNECT_SECONDS)
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
            raise ImapError(f"the server refuses {self._name}: {rest[:200]}")

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


class _LimitedClient(IMAPClient):  # type: ignore[misc]  # it has no types
    """IMAPClient over such a connection."""

    def __init__(self, account: ImapAccount, tls: ssl.SSLContext) -> None:
        self._account = account
        self._tls = tls
        super().__init__(account.host, account.port, ssl=False)
        self.connection.debug = 0  # IMAPClient has all that comes formatted for a log that nobody reads

    def _create_IMAP4(self) -> _LimitedConnection:  # noqa: N802 - IMAPClient calls it
        self.connection = _LimitedConnection(self._account, self._tls)
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
def _logged_in(account: ImapAccount, password: str, ca_file: Path | None) -> Iterator[_LimitedClient]:
    try:
        tls = ssl.create_default_context(cafile=ca_file)
    except OSError as error:
        raise ImapError(f"{ca_file}: no certificates can be read from it") from error
    with _translated_errors():
        try:
            client = _LimitedClient(account, tls)
        except UnicodeError as error:  # of a name that the DNS cannot have, such as one with two dots in a row
            raise ImapError(f"{account.host} is no name of a host") from error
    try:
        _log_in(client, account, password, tls)
        yield client
    finally:
        with suppress(OSError):
            client.shutdown()


def _log_in(client: _LimitedClient, account: ImapAccount, password: str, tls: ssl.SSLContext) -> None:
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


@dataclass(frozen=True, slots=True)
class FolderRequest:
    """A folder to read, from the message after ``known`` on, where that is still the same folder."""

    folder: ImapFolder
    known: FolderPosition | None = None


def read_folders(
    requests: Iterable[FolderRequest],
    passwords: Mapping[ImapAccount, str],
    ca_file: Path | None,
    errors: list[InputError],
) -> Iterator[NamedMessage]:
    """Yield the messages of all folders; what cannot be read is added to ``errors`` and left out.

    ``ca_file`` has the certificates that are trusted; None stands for those of the system.
    """
    for request in requests:
        account = request.folder.account
        try:
            with _logged_in(account, passwords[account], ca_file) as client:
                yield from _read_folder(client, request, errors)
        except ImapError as error:
            errors.append(InputError(f"{request.folder}: {error}"))


def _read_folder(
    client: _LimitedClient, request: FolderRequest, errors: list[InputError]
) -> Iterator[NamedMessage]:
    with client.command("EXAMINE"):
        uid_validity = client.select_folder(request.folder.name, readonly=True).get(b"UIDVALIDITY")
    known = request.known
    first = known.uid + 1 if known and known.uid_validity == uid_validity else 1
    if first > _MAX_UID:
        return
    with client.command("UID SEARCH", text_bytes=_SEARCH_BYTES):
        found = client.search(f"UID {first}:* UNDELETED")
    uids = sorted({uid for uid in found if first <= uid <= _MAX_UID})  # the last message is always found
    for start in range(0, len(uids), _UIDS_PER_COMMAND):
        sizes = _read_sizes(client, uids[start : start + _UIDS_PER_COMMAND], request.folder, errors)
        for uid, raw in _read_contents(client, sizes):
            label = f"{request.folder}#{uid}"
            if not raw.strip():
                errors.append(InputError(f"{label}: empty, that is no message"))
                continue
            position = FolderPosition(str(request.folder), uid_validity, uid) if uid_validity else None
            yield NamedMessage(label, raw, position)


def _read_sizes(
    client: _LimitedClient, uids: Sequence[int], folder: ImapFolder, errors: list[InputError]
) -> Mapping[int, int]:
    """Return the sizes of the messages that are not too large, by UID, without those that have gone meanwhile."""
    sizes: dict[int, int] = {}
    with client.command("UID FETCH"):
        answer = client.fetch(uids, ["RFC822.SIZE"])
    for uid, items in answer.items():
        size = items.get(b"RFC822.SIZE")
        if isinstance(size, int) and size > MAX_MESSAGE_BYTES:
            errors.append(InputError(f"{folder}#{uid}: larger than {MAX_MESSAGE_BYTES >> 20} MiB"))
        elif isinstance(size, int):
            sizes[uid] = size
    return sizes


def _read_contents(client: _LimitedClient, sizes: Mapping[int, int]) -> Iterator[tuple[int, bytes]]:
    """Yield UIDs and messages, some small ones with each command, without those that have gone meanwhile."""
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


# The passwords of IMAP accounts: from a file, or asked for on the terminal.


def read_passwords(accounts: Iterable[ImapAccount], password_file: Path | None) -> Mapping[ImapAccount, str]:
    """Return the password of each account; the one in the file is for all of them. Raises ``ConfigError``.

    They are at one server then: none gets to know the password of another one.
    """
    accounts = tuple(dict.fromkeys(accounts))
    if password_file is not None:
        if len(servers := sorted({account.host for account in accounts})) > 1:
            raise ConfigError(f"--password-file is for one server, and these are {', '.join(servers)}")
        try:
            secret = read_secret_file(password_file).secret.get_secret_value()
        except ValueError as error:
            raise ConfigError(f"--password-file {password_file}: {error}") from error
        return dict.fromkeys(accounts, secret)
    if not sys.stdin.isatty():
        raise ConfigError("without a terminal --password-file is needed")
    return {account: getpass.getpass(f"Password of {account}: ") for account in accounts}
