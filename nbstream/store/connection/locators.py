"""Finding the primary: what Sentinels or the nodes of a cluster say.

Rules. All nodes are asked at once, each with a short deadline, and the newest answer counts: Sentinels and the
nodes of a cluster number their decisions (configuration epoch), so that a node which was cut off, and still names
the old primary, is recognised. It is enough that the larger half answers; where it does not, the answers that came
within the deadline decide. Whether it is the primary, the server itself is asked when it is connected to.

The client library has its own Sentinel and Cluster clients. The one asks a Sentinel after the other, and takes the
first answer, which may be that of one that was cut off; the other knows no single connection on which a stream is
followed, and both say nothing of a failover until a command fails.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, NamedTuple

from redis import exceptions
from redis.asyncio import Connection
from redis.crc import key_slot
from redis.exceptions import AuthenticationError, NoPermissionError, RedisError

from nbstream.store.connection.options import (
    ClusterNodes,
    ConnectionOptions,
    NodeAddress,
    SentinelNodes,
    tls_connection_class,
)

_MAX_NODE_SECONDS = 1.0
_MAX_KNOWN_NODES = 100


class _Answer(NamedTuple):
    """Where the primary is, by the decision number ``epoch``."""

    epoch: int
    address: NodeAddress


class PrimaryLocator(ABC):
    """Asks ``nodes`` where the primary of ``options`` is; ``problem`` says that none has an answer."""

    def __init__(self, nodes: Sequence[NodeAddress], problem: str, options: ConnectionOptions) -> None:
        self._nodes = nodes
        self._problem = problem
        self._options = options
        self._class: type[Connection] = Connection if options.tls is None else tls_connection_class()

    async def locate(self) -> NodeAddress:
        """Return the address of the newest answer. Raises ``redis.exceptions.ConnectionError``."""
        answers = await _ask_all(self._nodes, self._ask)
        known = [answer for answer in answers if isinstance(answer, _Answer)]
        if known:
            return max(known, key=lambda answer: answer.epoch).address
        for answer in answers:
            if isinstance(answer, AuthenticationError):
                raise answer
        raise exceptions.ConnectionError(self._problem)

    @abstractmethod
    async def _ask(self, node: NodeAddress) -> _Answer | None:
        """Ask one node. Raises what ``_send`` raises, and ``ValueError`` and the like for a strange answer."""

    async def _send(self, node: NodeAddress, *commands: Sequence[str], logs_in: bool = True) -> list[Any]:
        """Return the replies to the commands, on a connection of their own, within a short deadline.

        Raises what redis-py raises, and ``TimeoutError``.
        """
        arguments = self._options.tls_arguments() | (self._options.login_arguments() if logs_in else {})
        # With a deadline of its own, redis-py would swallow a cancellation in Python 3.11; ``driver_info``: see
        # ``open_client``.
        arguments |= {"socket_timeout": None, "driver_info": None}
        connection = self._class(host=node[0], port=node[1], **arguments)
        try:
            async with asyncio.timeout(min(_MAX_NODE_SECONDS, self._options.timeout_seconds)):
                await connection.connect()  # type: ignore[no-untyped-call]  # redis-py has no type here
                replies = []
                for command in commands:
                    await connection.send_command(*command)
                    replies.append(await connection.read_response())
                return replies
        finally:
            await connection.disconnect(nowait=True)


class SentinelLocator(PrimaryLocator):
    """Asks Sentinels. Those that want a login get that of Redis; most want none, and refuse one."""

    def __init__(self, nodes: SentinelNodes, options: ConnectionOptions) -> None:
        super().__init__(nodes.addresses, f"no Sentinel that answers knows {nodes.service}", options)
        self._commands = (
            ("SENTINEL", "GET-MASTER-ADDR-BY-NAME", nodes.service),
            ("SENTINEL", "MASTER", nodes.service),
        )

    async def _ask(self, node: NodeAddress) -> _Answer | None:
        try:
            address, state = await self._send(node, *self._commands, logs_in=False)
        except (AuthenticationError, NoPermissionError):
            address, state = await self._send(node, *self._commands)
        return _Answer(int(_mapping(state)[b"config-epoch"]), (address[0].decode(), int(address[1])))


class ClusterLocator(PrimaryLocator):
    """Asks nodes of a cluster which of them has the keys of a model, which all are in one slot."""

    def __init__(self, nodes: ClusterNodes, slot: int, options: ConnectionOptions) -> None:
        problem = f"no node of the cluster that answers knows who has slot {slot}"
        super().__init__(nodes.addresses, problem, options)
        self._slot = slot
        self._configured = nodes.addresses

    async def _ask(self, node: NodeAddress) -> _Answer | None:
        (reply,) = await self._send(node, ("CLUSTER", "NODES"))
        lines = ClusterNode.parse_all(reply, node[0], prefers_name=self._options.tls is not None)
        known = [line.address for line in lines if line.address[1]][:_MAX_KNOWN_NODES]
        self._nodes = tuple(dict.fromkeys((*self._configured, *known)))
        owners = [line for line in lines if line.is_primary and line.has_slot(self._slot)]
        return _Answer(owners[0].epoch, owners[0].address) if owners else None


class ClusterNode(NamedTuple):
    """One line of CLUSTER NODES.

    ``slots`` are pairs of the first and the last slot of a range; ``moving_slots`` are on their way from or to the
    node, which only the line of the node that is asked says.
    """

    address: NodeAddress
    flags: frozenset[str]
    epoch: int
    slots: tuple[tuple[int, int], ...]
    moving_slots: frozenset[int]

    @classmethod
    def parse(cls, line: str, asked_host: str = "", *, prefers_name: bool = False) -> ClusterNode:
        """Read a line; a node that does not know its own host is at ``asked_host``.

        ``prefers_name``: where the node announces a host name beside its address, that is taken, as certificates
        have names.
        """
        _, place, flags, _, _, _, epoch, _, *ranges = line.split(" ")
        address, *extras = place.split(",")
        host, _, port = address.partition("@")[0].rpartition(":")
        name = extras[0] if extras and "=" not in extras[0] else ""
        slots, moving = [], set()
        for text in ranges:
            if text.startswith("["):
                moving.add(int(text[1:].partition("-")[0]))
            else:
                first, _, last = text.partition("-")
                slots.append((int(first), int(last or first)))
        chosen = (prefers_name and name) or host or name or asked_host
        return cls((chosen, int(port)), frozenset(flags.split(",")), int(epoch), tuple(slots), frozenset(moving))

    @classmethod
    def parse_all(cls, reply: bytes, asked_host: str = "", *, prefers_name: bool = False) -> list[ClusterNode]:
        """Read a whole reply to CLUSTER NODES; see ``parse``."""
        lines = filter(None, reply.decode(errors="replace").splitlines())
        return [cls.parse(line, asked_host, prefers_name=prefers_name) for line in lines]

    @property
    def is_primary(self) -> bool:
        """Whether the node is a primary that the others do not regard as failed."""
        return "master" in self.flags and "fail" not in self.flags

    def has_slot(self, slot: int) -> bool:
        """Whether the node has the slot."""
        return any(first <= slot <= last for first, last in self.slots)


def make_locator(options: ConnectionOptions) -> PrimaryLocator | None:
    """The locator of these options; None for a URL, which says itself where Redis is."""
    if isinstance(options.server, SentinelNodes):
        return SentinelLocator(options.server, options)
    if isinstance(options.server, ClusterNodes):
        slot = model_slot(options)
        assert slot is not None
        return ClusterLocator(options.server, slot, options)
    return None


def model_slot(options: ConnectionOptions) -> int | None:
    """The slot of all keys of the model in a cluster; None without a cluster."""
    if not isinstance(options.server, ClusterNodes):
        return None
    if options.model is None:
        raise ValueError("a cluster needs the name of the model")
    return int(key_slot(options.model.encode()))


async def _ask_all(
    nodes: Iterable[NodeAddress], ask: Callable[[NodeAddress], Awaitable[_Answer | None]]
) -> list[_Answer | Exception | None]:
    """The answers, or errors, of the nodes that answered first: at least of the larger half if it answers."""

    async def try_asking(node: NodeAddress) -> _Answer | Exception | None:
        try:
            return await ask(node)
        except (RedisError, OSError) as error:
            return error
        except (ValueError, TypeError, LookupError, AttributeError) as error:  # an answer may be of any form
            return error

    tasks = [asyncio.create_task(try_asking(node)) for node in nodes]
    pending = set(tasks)
    try:
        while pending and 2 * sum(_has_answered(task) for task in tasks) <= len(tasks):
            _, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
    return [task.result() for task in tasks if not task.cancelled()]


def _has_answered(task: asyncio.Task[_Answer | Exception | None]) -> bool:
    return task.done() and isinstance(task.result(), _Answer)


def _mapping(reply: Any) -> dict[bytes, bytes]:
    """A reply with names and values: RESP3 gives a mapping, RESP2 a list."""
    return reply if isinstance(reply, dict) else dict(zip(reply[0::2], reply[1::2], strict=True))
