"""What stands before Redis and accepts connections while Redis is away, as stunnel, haproxy and TCP proxies do."""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import suppress
from enum import Enum
from pathlib import Path
from types import TracebackType
from typing import Self

_READ_BYTES = 1 << 16


class Behaviour(Enum):
    """What the gate does with a connection, once it has passed the bytes that it lets pass."""

    PASS = "pass"
    CLOSE = "close"
    RESET = "reset"
    HALF_CLOSE = "half-close"
    """Its own side ends, and what comes is read for as long as the client sends."""
    SILENT = "silent"


class Gate:
    """A TCP port before the Redis at ``target``. A test sets ``behaviour`` and what passes before that.

    ``passing`` is how many bytes of replies of each new connection come through first: with 0 the gate breaks the
    connection when it is opened, with few while it is set up, with more within a later reply.
    """

    def __init__(self, target: Path, behaviour: Behaviour = Behaviour.PASS, passing: int = 0) -> None:
        self.target, self.behaviour, self.passing = target, behaviour, passing
        self.connections = 0
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._is_closed = threading.Event()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self._listening.getsockname()[1]}/0"

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_closed.set()
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self.cut()
        for thread in self._threads:
            thread.join(10)

    def cut(self) -> None:
        """Break all connections."""
        for connection in list(self._open):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def _start(self, run: object, *arguments: object) -> None:
        thread = threading.Thread(target=run, args=arguments, daemon=True)  # type: ignore[arg-type]  # methods only
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._is_closed.is_set():
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            self.connections += 1
            self._start(self._serve, client, self.behaviour, self.passing)

    def _serve(self, client: socket.socket, behaviour: Behaviour, passing: int) -> None:
        self._open.add(client)
        try:
            if behaviour is Behaviour.PASS or passing:
                self._pass(client, None if behaviour is Behaviour.PASS else passing)
            if behaviour is Behaviour.RESET:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            elif behaviour in {Behaviour.HALF_CLOSE, Behaviour.SILENT}:
                with suppress(OSError):
                    if behaviour is Behaviour.HALF_CLOSE:
                        client.shutdown(socket.SHUT_WR)
                    while client.recv(_READ_BYTES):
                        pass
        finally:
            self._open.discard(client)
            client.close()

    def _pass(self, client: socket.socket, left: int | None) -> None:
        """Pass both ways until either side ends, or until so many bytes of replies have passed."""
        with socket.socket(socket.AF_UNIX) as redis:
            self._open.add(redis)
            try:
                redis.connect(str(self.target))
                self._start(self._pass_requests, client, redis)
                while left != 0 and (reply := redis.recv(_READ_BYTES if left is None else left)):
                    client.sendall(reply)
                    left = None if left is None else left - len(reply)
            except OSError:  # one of both is gone
                pass
            finally:
                self._open.discard(redis)
                with suppress(OSError):
                    redis.shutdown(socket.SHUT_RDWR)

    @staticmethod
    def _pass_requests(client: socket.socket, redis: socket.socket) -> None:
        with suppress(OSError):
            while request := client.recv(_READ_BYTES):
                redis.sendall(request)
            redis.shutdown(socket.SHUT_WR)
