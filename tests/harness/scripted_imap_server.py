"""A server that sends what it is told to, and notes what it gets."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from nbstream.server.imap import ImapAccount
from tests.harness.waiting import DEADLINE_SECONDS


class Server:
    """Greets with its first answer, and answers each command with the next one, in which ``%b`` is the tag.

    Then it ends the connection; after an answer that ends with ``...`` it waits.
    """

    def __init__(self, answers: Sequence[bytes], port: int = 0) -> None:
        self.lines: list[bytes] = []
        self._answers = answers
        self._listening = socket.create_server(("127.0.0.1", port))
        self.account = ImapAccount("127.0.0.1", self._listening.getsockname()[1], False, "ann")

    @contextmanager
    def running(self) -> Iterator[None]:
        thread = threading.Thread(target=self._serve)
        thread.start()
        try:
            yield
        finally:
            self._listening.shutdown(socket.SHUT_RDWR)
            thread.join(DEADLINE_SECONDS)
            self._listening.close()

    def _serve(self) -> None:
        try:
            connection, _ = self._listening.accept()
        except OSError:
            return
        with connection, connection.makefile("rb") as file:
            try:
                greeting, *answers = self._answers
                connection.sendall(greeting)
                for answer in answers:
                    line = file.readline()
                    if not line:
                        return
                    self.lines.append(line)
                    tag = line.split()[0]
                    if line.startswith(tag + b" AUTHENTICATE"):
                        connection.sendall(b"+ \r\n")
                        self.lines.append(file.readline())
                    connection.sendall(answer.replace(b"%b", tag))
                if self._answers[-1].endswith(b"..."):
                    file.read()  # it waits, until the client has gone
            except OSError:
                pass
