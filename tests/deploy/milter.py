"""A milter that writes the results of authentication into each message, as OpenDKIM and its like do.

It speaks as much of Sendmail's milter protocol as it needs: it wants to see nothing of a message but its end.
"""

from __future__ import annotations

import socketserver
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tests.integration.daemon import DEADLINE_SECONDS

_MAY_ADD_HEADER_FIELDS = 0x01
_SKIPPED_STEPS = 0x37F  # connect, HELO, MAIL, RCPT, body, header fields, end of the header, unknown commands, DATA


class _Milter(socketserver.StreamRequestHandler):
    """One connection from Postfix."""

    server: Milters

    def handle(self) -> None:
        with suppress(ConnectionError):
            while len(length := self.rfile.read(4)) == 4:
                packet = self.rfile.read(struct.unpack("!I", length)[0])
                command, content = packet[:1], packet[1:]
                if command == b"O":  # negotiation: version, actions, steps
                    version = struct.unpack("!I", content[:4])[0]
                    self._reply(b"O" + struct.pack("!III", version, _MAY_ADD_HEADER_FIELDS, _SKIPPED_STEPS))
                elif command == b"E":  # the end of the message: insert a field at a position, then accept
                    field = b"Authentication-Results\0" + self.server.results + b"\0"
                    self._reply(b"i" + struct.pack("!I", self.server.position) + field)
                    self._reply(b"a")
                elif command == b"Q":
                    return

    def _reply(self, packet: bytes) -> None:
        self.wfile.write(struct.pack("!I", len(packet)) + packet)


class Milters(socketserver.ThreadingTCPServer):
    """The listener; ``results`` is the value of the field, and ``position`` what the milter asks for."""

    daemon_threads = True
    results = b"mx.example.org; dkim=pass header.d=signer.example"
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
