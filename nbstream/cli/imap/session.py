"""A connection to an IMAP server, on which one command follows the other.

Rules: the password goes over TLS whose certificate is verified, or to this machine. Each command has a limit in
time and in bytes, whatever the server sends.
"""

from __future__ import annotations

import getpass
import ipaddress
import socket
import ssl
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from nbstream.cli.message_files import FolderPosition, NamedMessage
from nbstream.errors import ConfigError, InputError
from nbstream.settings.values import read_secret_file
from nbstream.wire import imap
from nbstream.wire.imap import FetchedMessage, ImapProtocolError, ImapResponse, ImapResponseParser
from nbstream.wire.imap_url import ImapAccount, ImapFolder

_CONNECT_SECONDS = 30.0
_COMMAND_SECONDS = 300.0
_LINE_BYTES = 64 << 10
_READ_BYTES = 256 << 10
_RESPONSE_COST = 200  # the memory that a response takes beside its bytes


class ImapError(Exception):
    """The server is away, refuses something, or does not speak IMAP; the text says which."""


class ImapSession:
    """A connection to the server of ``account``, as a context; ``log_in`` comes first."""

    def __init__(self, account: ImapAccount, ca_file: Path | None = None) -> None:
        self._account = account
        try:
            self._tls = ssl.create_default_context(cafile=ca_file)
        except OSError as error:
            raise ImapError(f"{ca_file}: no certificates can be read from it") from error
        self._parser = ImapResponseParser()
        self._received: deque[ImapResponse] = deque()
        self._commands = 0
        self._deadline = time.monotonic() + _CONNECT_SECONDS
        try:
            self._socket = socket.create_connection((account.host, account.port), _CONNECT_SECONDS)
            try:
                if account.implicit_tls:
                    self._socket = self._tls.wrap_socket(self._socket, server_hostname=account.host)
            except BaseException:
                self._socket.close()
                raise
        except OSError as error:
            raise _session_error(error) from error
        except UnicodeError as error:  # of a name that the DNS cannot have, such as one with two dots in a row
            raise ImapError(f"{account.host} is no name of a host") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def log_in(self, password: str) -> None:
        """Read the greeting, begin TLS where the connection needs it, and log in. Raises ``ImapError``."""
        self._deadline = time.monotonic() + _CONNECT_SECONDS
        greeting = self._next_response()
        if not greeting.is_ok:
            raise ImapError(f"the server does not greet: {greeting.text[:200]}")
        capabilities = self._capabilities()
        if not self._account.implicit_tls and not self._is_on_this_machine():
            self._start_tls(capabilities)
            capabilities = self._capabilities()
        if "AUTH=PLAIN" in capabilities:
            self.command("AUTHENTICATE PLAIN", continuation=imap.plain_response(self._account.user, password))
            return
        if "LOGINDISABLED" in capabilities:
            raise ImapError("the server has no way to log in by a password")
        try:
            words = f"LOGIN {imap.quote(self._account.user)} {imap.quote(password)}"
        except ValueError as error:
            raise ImapError("user name and password must be ASCII at this server") from error
        self.command(words)

    def command(
        self,
        words: str,
        *,
        continuation: str = "",
        max_response_bytes: int = _LINE_BYTES,
        max_bytes: int = 1 << 20,
    ) -> Sequence[ImapResponse]:
        """Send a command, and return the responses before its end. Raises ``ImapError``.

        ``continuation`` is sent when the server asks to go on. ``max_response_bytes`` is the limit of each
        response, ``max_bytes`` that of all.
        """
        self._parser.max_response_bytes = max_response_bytes
        self._deadline = time.monotonic() + _COMMAND_SECONDS
        self._commands += 1
        tag = f"n{self._commands}"
        self._send(f"{tag} {words}")
        responses: list[ImapResponse] = []
        left = max_bytes
        while True:
            response = self._next_response()
            if response.tag == tag:
                if not response.is_ok:
                    name, why = words.partition(" ")[0], response.text.partition(" ")[2][:200]
                    raise ImapError(f"the server refuses {name}: {why}")
                return responses
            left -= response.size + _RESPONSE_COST
            if left < 0:
                raise ImapError(f"the answer is larger than {max_bytes} bytes")
            if response.tag == "+" and continuation:
                self._send(continuation)
                continuation = ""
            elif response.text.upper().startswith("* BYE"):
                raise ImapError(f"the server ends the connection: {response.text[6:200]}")
            else:
                responses.append(response)

    def _capabilities(self) -> set[str]:
        text = " ".join(response.text.upper() for response in self.command("CAPABILITY"))
        return set(text.split())

    def _start_tls(self, capabilities: set[str]) -> None:
        if "STARTTLS" not in capabilities:
            raise ImapError("the server has no TLS, and is not on this machine: the password would be readable")
        self.command("STARTTLS")
        if self._received or not self._parser.is_between_responses:
            raise ImapError("the server, or somebody on the way, sends text before TLS begins")
        try:
            self._socket.settimeout(_CONNECT_SECONDS)
            self._socket = self._tls.wrap_socket(self._socket, server_hostname=self._account.host)
        except OSError as error:
            raise _session_error(error) from error

    def _is_on_this_machine(self) -> bool:
        return ipaddress.ip_address(self._socket.getpeername()[0].partition("%")[0]).is_loopback

    def _send(self, line: str) -> None:
        try:
            self._limit_wait()
            self._socket.sendall(line.encode("ascii") + b"\r\n")
        except OSError as error:
            raise _session_error(error) from error

    def _next_response(self) -> ImapResponse:
        try:
            while not self._received:
                self._limit_wait()
                data = self._socket.recv(_READ_BYTES)
                if not data:
                    raise ImapError("the server has closed the connection")
                self._received += self._parser.feed(data)
        except OSError as error:
            raise _session_error(error) from error
        except ImapProtocolError as error:
            raise ImapError(f"this is not IMAP: {error}") from error
        return self._received.popleft()

    def _limit_wait(self) -> None:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("the server is too slow")
        self._socket.settimeout(left)


def _session_error(error: OSError) -> ImapError:
    if isinstance(error, ssl.SSLCertVerificationError):
        return ImapError(f"the certificate of the server cannot be trusted: {error.verify_message}")
    return ImapError(error.strerror or str(error))


# The messages of IMAP folders, in the order of their UIDs.
#
# Rules: nothing changes in a folder, neither flags nor messages (EXAMINE, BODY.PEEK). Messages that are marked
# as deleted are left out. The size of a message is asked before its content, and memory holds one message or
# some small ones.

MAX_MESSAGE_BYTES = 50 << 20
"""A larger message is left out and reported, as the listeners refuse it."""

_SEARCH_BYTES = 16 << 20  # about two million messages
_UIDS_PER_COMMAND = 200
_BYTES_PER_COMMAND = 1 << 20
_FETCH_OVERHEAD = 1 << 16

Item = TypeVar("Item")


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
            with ImapSession(account, ca_file) as session:
                session.log_in(passwords[account])
                yield from _read_folder(session, request, errors)
        except ImapError as error:
            errors.append(InputError(f"{request.folder}: {error}"))


def _read_folder(session: ImapSession, request: FolderRequest, errors: list[InputError]) -> Iterator[NamedMessage]:
    name = imap.quote(imap.encode_mailbox_name(request.folder.name))
    answers = [imap.parse_uid_validity(response) for response in session.command(f"EXAMINE {name}")]
    uid_validity = next((answer for answer in answers if answer is not None), None)
    known = request.known
    first = known.uid + 1 if known and known.uid_validity == uid_validity else 1
    if first > imap.MAX_UID:
        return
    search = f"UID SEARCH UID {first}:* UNDELETED"  # the last message is found even if its UID is lower
    found = session.command(search, max_response_bytes=_SEARCH_BYTES, max_bytes=2 * _SEARCH_BYTES)
    uids = sorted({uid for response in found for uid in imap.parse_search(response) if uid >= first})
    for some in _split(uids, _UIDS_PER_COMMAND):
        for message in _fetch_messages(session, _checked_sizes(session, some, request.folder, errors)):
            assert message.content is not None
            label = f"{request.folder}#{message.uid}"
            if not message.content.strip():
                errors.append(InputError(f"{label}: empty, that is no message"))
                continue
            position = FolderPosition(str(request.folder), uid_validity, message.uid) if uid_validity else None
            yield NamedMessage(label, message.content, position)


def _checked_sizes(
    session: ImapSession, uids: Sequence[int], folder: ImapFolder, errors: list[InputError]
) -> Mapping[int, int]:
    """Return the sizes of the messages that are not too large, by UID and in its order."""
    sizes = {
        message.uid: message.size
        for message in _fetch(session, uids, "RFC822.SIZE", max_bytes=1 << 20)
        if message.size is not None
    }
    errors += [
        InputError(f"{folder}#{uid}: larger than {MAX_MESSAGE_BYTES >> 20} MiB")
        for uid in uids
        if sizes.get(uid, 0) > MAX_MESSAGE_BYTES
    ]
    return {uid: sizes[uid] for uid in uids if sizes.get(uid, MAX_MESSAGE_BYTES + 1) <= MAX_MESSAGE_BYTES}


def _fetch_messages(session: ImapSession, sizes: Mapping[int, int]) -> Iterator[FetchedMessage]:
    """Yield messages with their contents; those that somebody has deleted meanwhile are missing."""
    group: list[int] = []
    group_bytes = 0
    for uid, size in [*sizes.items(), (0, _BYTES_PER_COMMAND)]:
        if group and group_bytes + size > _BYTES_PER_COMMAND:
            # Some servers count line ends as one byte, so that the size they tell is too small.
            limit = 2 * max(group_bytes, _BYTES_PER_COMMAND) + _FETCH_OVERHEAD
            yield from [m for m in _fetch(session, group, "BODY.PEEK[]", max_bytes=limit) if m.content is not None]
            group, group_bytes = [], 0
        group.append(uid)
        group_bytes += size


def _fetch(session: ImapSession, uids: Sequence[int], item: str, *, max_bytes: int) -> Sequence[FetchedMessage]:
    """Return what the server says of these messages, each once and in the order of their UIDs."""
    responses = session.command(
        f"UID FETCH {imap.uid_set(uids)} (UID {item})", max_response_bytes=max_bytes, max_bytes=max_bytes
    )
    messages: dict[int, FetchedMessage] = {}
    for message in filter(None, map(imap.parse_fetch, responses)):
        if message.uid in uids and (message.size is not None or message.content is not None):
            messages.setdefault(message.uid, message)
    return [messages[uid] for uid in uids if uid in messages]


def _split(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]


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
