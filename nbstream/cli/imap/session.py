"""A connection to an IMAP server, on which one command follows the other.

Rules: the password goes over TLS whose certificate is verified, or to this machine. Each command has a limit in
time and in bytes, whatever the server sends.
"""

from __future__ import annotations

import ipaddress
import socket
import ssl
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from nbstream.wire import imap
from nbstream.wire.imap import ImapProtocolError, ImapResponse, ImapResponseParser
from nbstream.wire.imap_url import ImapAccount

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
