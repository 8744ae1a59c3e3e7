"""A milter that writes the results of authentication into each message, as OpenDKIM and its like do.

It wants to see nothing of a message but its end.
"""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from nbstream.listeners.milter.codec import (
    CONTINUE,
    MilterActions,
    MilterBody,
    MilterOptions,
    MilterParser,
    MilterSteps,
    insert_header,
    negotiation,
)
from tests.harness.daemon import DEADLINE_SECONDS

_SKIPPED_STEPS = MilterSteps(0x37F)  # all that begin with NO in libmilter/mfdef.h


class _Milter(socketserver.BaseRequestHandler):
    """One connection from Postfix."""

    server: Milters

    def handle(self) -> None:
        parser = MilterParser()
        with suppress(ConnectionError):
            while data := self.request.recv(1 << 16):
                for event in parser.feed(data):
                    if isinstance(event, MilterOptions):
                        options = event.agree(MilterActions.ADDHDRS, _SKIPPED_STEPS)
                        self.request.sendall(negotiation(options))
                    elif isinstance(event, MilterBody) and event.is_last:
                        field = insert_header(self.server.position, "Authentication-Results", self.server.results)
                        self.request.sendall(field + CONTINUE)


class Milters(socketserver.ThreadingTCPServer):
    """The listener; ``results`` is the value of the field, and ``position`` what the milter asks for."""

    daemon_threads = True
    results = "mx.example.org; dkim=pass header.d=signer.example"
    position = 1  # as OpenDKIM asks for

    @property
    def port(self) -> int:
        """The port on which it listens."""
        return int(self.server_address[1])


@contextmanager
def milters() -> Iterator[Milters]:
    """A milter on a port of this machine."""
    with Milters(("127.0.0.1", 0), _Milter) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join(DEADLINE_SECONDS)
