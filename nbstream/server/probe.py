"""One short conversation with a listener, in its own protocol, for ``nbstream doctor``.

Rules: a probe gets a connection, says as little as proves that the listener works, and changes nothing. It returns
the findings; ``OSError`` and ``EOFError`` mean that the listener does not do its work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbstream.findings import ok, problem, warning

if TYPE_CHECKING:
    import asyncio
    import ssl

    from nbstream.findings import Finding

WRONG_ANSWER = problem(
    "listener.{name}",
    "listeners.{name} at {address} gave an unexpected answer to {request}: {answer}.",
    "Check whether another program listens at that address, and the daemon's log.",
)
BUSY = warning(
    "listener.{name}",
    "listeners.{name} at {address} turns clients away: {answer}.",
    "Raise limits.max_connections, or find out which client keeps so many connections open.",
)
WORKS = ok("listener.{name}", "listeners.{name} at {address} answers to {request}.")
_MAX_ANSWER_BYTES = 1 << 16


def unchecked_tls() -> ssl.SSLContext:
    """Return TLS without a check of the certificate: the listener is asked whether it works, not who it is."""
    import ssl  # noqa: PLC0415 - the rooms of the protocols are imported by commands that need no TLS

    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


class Conversation:
    """A connection to a listener, and the name and the address that findings give it."""

    def __init__(
        self, name: str, address: object, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.name = name
        self.address = address
        self._reader = reader
        self._writer = writer
        self.began_tls = False

    async def start_tls(self) -> None:
        """Go on within TLS. Raises ``OSError`` where there is none."""
        await self._writer.start_tls(unchecked_tls())
        self.began_tls = True

    def send(self, data: bytes) -> None:
        """Send bytes."""
        self._writer.write(data)

    async def receive(self, count: int) -> bytes:
        """Return exactly so many bytes. Raises ``EOFError``."""
        return await self._reader.readexactly(count)

    async def receive_line(self) -> str:
        """Return a line without its end. Raises ``EOFError`` where there is none."""
        line = await self._reader.readline()
        if not line:
            raise EOFError("it closed the connection")
        return line.decode("utf-8", "replace").rstrip("\r\n")

    async def receive_all(self) -> bytes:
        """Return all until the listener closes, at most ``_MAX_ANSWER_BYTES``."""
        data = b""
        while len(data) < _MAX_ANSWER_BYTES and (more := await self._reader.read(_MAX_ANSWER_BYTES)):
            data += more
        return data

    def works(self, request: str) -> list[Finding]:
        """Return the finding that all is well."""
        return [WORKS(name=self.name, address=self.address, request=request)]

    def wrong(self, request: str, answer: str) -> list[Finding]:
        """Return the finding that the answer is wrong."""
        shown = answer[:200] or "nothing"
        return [WRONG_ANSWER(name=self.name, address=self.address, request=request, answer=shown)]
