"""What the server asks of every listener, whatever protocol it speaks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import socket
    from collections.abc import Awaitable, Callable

    from nbstream.server.runtime import Runtime


class Listener(Protocol):
    """A way in for mail or for requests."""

    async def start(self, *sockets: socket.socket) -> Callable[[], Awaitable[None]] | None:
        """Serve on these sockets, which listen already.

        A listener with background work returns it: the server runs it until the drain, and again if it fails.
        """

    def apply(self, runtime: Runtime) -> None:
        """Go by ``runtime`` from the next message on. It fails for no reason, and waits for nothing."""

    async def drain(self, seconds: float) -> None:
        """Stop accepting, let work under way finish within ``seconds``, then close what is left."""
