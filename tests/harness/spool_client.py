"""A client that reports messages as Dovecot does, for tests with a daemon."""

from __future__ import annotations

import socket
from contextlib import suppress
from pathlib import Path

from tests.harness.daemon import DEADLINE_SECONDS

TAKEN, REFUSED = b"+\n", b"-\n"


def numbered(number: int) -> bytes:
    return b"Message-ID: <%d@example.org>\r\nSubject: Offer %d\r\n\r\nClaim prize %d now.\r\n" % ((number,) * 3)


def report(path: Path, message: bytes, label: str = "spam") -> bytes:
    """Report a message, and return the answer; empty where the daemon is gone before it."""
    head = f"VERSION\tscript\t4\t0\nenv_USER=ann\n-\n127.0.0.1:10025\n{label}@nbstream.invalid\n\n".encode()
    with suppress(ConnectionError, FileNotFoundError), socket.socket(socket.AF_UNIX) as client:
        client.settimeout(DEADLINE_SECONDS)
        client.connect(str(path))
        client.sendall(head + message)
        client.shutdown(socket.SHUT_WR)
        answer = b""
        while data := client.recv(16):
            answer += data
        return answer
    return b""
