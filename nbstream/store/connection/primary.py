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

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from redis import exceptions
from redis.exceptions import RedisError

from nbstream.errors import StoreUnavailable
from nbstream.store.connection.locators import ClusterNode, make_locator, model_slot

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from nbstream.store.connection.locators import PrimaryLocator
    from nbstream.store.connection.options import ConnectionOptions, NodeAddress


class Primary:
    """What is known of the server that the connections lead to, shared by all pools of a process.

    ``report_loss`` is called with the reason each time that the connections become obsolete. ``locator`` says
    where the primary is; without it the address of the clients does.
    """

    def __init__(
        self,
        report_loss: Callable[[str], object] = lambda _: None,
        locator: PrimaryLocator | None = None,
        slot: int | None = None,
    ) -> None:
        self._report_loss = report_loss
        self._locator = locator
        self._address: NodeAddress | None = None
        self._must_ask = True
        self._problem: RedisError | None = None
        self._answers = 0
        self._asking = asyncio.Lock()
        self._others: dict[str | None, Primary] = {}
        self.slot = slot
        """The slot of the model in a cluster; None without a cluster."""
        self._server_id: str | None = None
        self.generation = 0
        """The generation of the connections that are of use; those of an earlier one are obsolete."""
        self.servers = 0
        """How often a connection has reached another server than the last one; 0 before the first connection."""
        self.is_replica = False
        """Whether the server is known to be a replica, or to have refused a write as a replica does."""
        self.before_connect: Callable[[], Awaitable[object]] | None = None
        """Awaited before each attempt to connect to the address of the client, as to start a server there."""

    @property
    def is_located(self) -> bool:
        """Whether others say where the primary is, and a replica is therefore never the right server."""
        return self._locator is not None

    def other(self, options: ConnectionOptions) -> Primary:
        """Return what is known of the primary of another hash tag of the cluster, the model of ``options``."""
        if options.model not in self._others:
            self._others[options.model] = open_primary(options, self._report_loss)
        return self._others[options.model]

    async def locate(self) -> NodeAddress | None:
        """Return where to connect to; None where the address of the client says it.

        Others are asked only after ``ask_again`` or a loss. Where they do not answer, the last address holds,
        unless the server there has said that it is not the primary. Who comes while they are asked waits for the
        same answer. Raises ``redis.exceptions.ConnectionError``, and what ``before_connect`` raises.
        """
        if self._locator is None:
            if self.before_connect:
                await self.before_connect()
            return None
        answers = self._answers
        async with self._asking:
            if (self._must_ask or self._address is None) and self._answers == answers:
                await self._ask()  # else somebody has asked while this one waited
            if self._address is None:
                raise exceptions.ConnectionError(str(self._problem or "a failover goes on")) from self._problem
            return self._address

    async def _ask(self) -> None:
        assert self._locator is not None
        try:
            self._address = await self._locator.locate()
            self._must_ask, self._problem = False, None
        except RedisError as error:
            self._problem = error
        self._answers += 1

    def ask_again(self) -> None:
        """Have ``locate`` ask where the primary is: the last address cannot be reached, or may be out of date."""
        self._must_ask = True

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
            if reason != "loading":
                self.refused()

    def refused(self) -> None:
        """Forget the address: the server there is a replica, although others say that it is the primary."""
        self._address, self._must_ask = None, True

    def _drop_connections(self, reason: str) -> None:
        self.generation += 1
        self._report_loss(reason)


def open_primary(options: ConnectionOptions, report_loss: Callable[[str], object] = lambda _: None) -> Primary:
    """What is going to be known of the primary of these options; nobody is asked yet."""
    return Primary(report_loss, make_locator(options), model_slot(options))


def primary_of(client: Redis) -> Primary:
    """What is known of the server of a client that ``open_client`` has opened."""
    primary = client.connection_pool.primary  # type: ignore[attr-defined]  # of PrimaryPool, which redis-py cannot know
    assert isinstance(primary, Primary)
    return primary


class ServerGuard:
    """Notices that the commands of one piece of work, such as a scan, went to more than one server."""

    def __init__(self, client: Redis) -> None:
        self._client = client
        self._primary = primary_of(client)
        self._servers = max(self._primary.servers, 1)  # the first connection may be still to come

    def check(self) -> None:
        """Raise ``StoreUnavailable`` if another server was reached since the guard was made."""
        if self._primary.servers > self._servers:
            raise StoreUnavailable("another Redis server answers than before: this has to be read again")

    async def check_keys(self) -> None:
        """Raise ``StoreUnavailable`` if a SCAN would not see all keys of the model; ask before and after it.

        A SCAN names no key, so that the node of a cluster answers it with what it has, even while it hands the
        slot of the model over to another node, or has done so. Raises also what redis-py raises.
        """
        if self._primary.slot is not None:
            reply = await self._client.execute_command("CLUSTER", "NODES")  # type: ignore[no-untyped-call]  # no type
            own = [node for node in ClusterNode.parse_all(reply) if "myself" in node.flags]
            slot = self._primary.slot
            if not any(node.has_slot(slot) and slot not in node.moving_slots for node in own):
                raise StoreUnavailable("the keys of the model are being moved to another node: try again later")
        self.check()
