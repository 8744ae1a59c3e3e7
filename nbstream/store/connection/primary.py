"""The server that all connections of a process lead to, and how the process notices that it is another one.

Rules. Each new connection asks the server for its run id and its role. A connection that reaches another server
than those before makes all earlier connections obsolete, and so does a reply that only a server gives that is not
the primary or cannot serve now. An idle obsolete connection is closed before its next use, a busy one when its
command ends. This is so for a fixed URL too: the address may move with the primary, or a proxy may have it, and an
open connection to a demoted server would stay there for ever.

A cursor of SCAN, HSCAN or ZSCAN has a meaning in the process of one server only: with it another server would
leave out fields without an error. Therefore whoever scans, or follows a stream, asks a ``ServerGuard`` after each
reply.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from nbstream.errors import StoreUnavailable

if TYPE_CHECKING:
    from redis.asyncio import Redis


class Primary:
    """What is known of the server that the connections lead to, shared by all pools of a process.

    ``report_loss`` is called with the reason each time that the connections become obsolete.
    """

    def __init__(self, report_loss: Callable[[str], object] = lambda _: None) -> None:
        self._report_loss = report_loss
        self._server_id: str | None = None
        self.generation = 0
        """The generation of the connections that are of use; those of an earlier one are obsolete."""
        self.servers = 0
        """How often a connection has reached another server than the last one; 0 before the first connection."""
        self.is_replica = False
        """Whether the server is known to be a replica, or to have refused a write as a replica does."""

    def reached(self, server_id: str | None, *, is_replica: bool) -> None:
        """Note which server a new connection has reached; ``server_id`` is None where it does not say that."""
        if server_id is None:
            self.servers = max(self.servers, 1)
        elif server_id != self._server_id:
            if self._server_id is not None:
                self._drop_connections("other_server")
            self._server_id = server_id
            self.servers += 1
        self.is_replica = is_replica

    def lost(self, reason: str, generation: int) -> None:
        """Note a reply on a connection of ``generation`` that only another server than a working primary gives."""
        if generation == self.generation:
            self.is_replica = self.is_replica or reason == "readonly"
            self._drop_connections(reason)

    def _drop_connections(self, reason: str) -> None:
        self.generation += 1
        self._report_loss(reason)


def primary_of(client: Redis) -> Primary:
    """What is known of the server of a client that ``open_client`` has opened."""
    primary = client.connection_pool.primary  # type: ignore[attr-defined]  # of PrimaryPool, which redis-py cannot know
    assert isinstance(primary, Primary)
    return primary


class ServerGuard:
    """Notices that the commands of one piece of work, such as a scan, went to more than one server."""

    def __init__(self, client: Redis) -> None:
        self._primary = primary_of(client)
        self._servers = max(self._primary.servers, 1)  # the first connection may be still to come

    def check(self) -> None:
        """Raise ``StoreUnavailable`` if another server was reached since the guard was made."""
        if self._primary.servers != self._servers:
            raise StoreUnavailable("another Redis server answers than before: this has to be read again")
