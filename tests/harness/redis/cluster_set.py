"""A cluster of three primaries with a replica each, whose nodes notice after a second that one is gone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Self

from redis.exceptions import RedisError

from tests.harness.daemon import free_port, wait_until
from tests.harness.redis.access import HOSTS, Access
from tests.harness.redis.server_process import ServerProcess

SLOTS = 16_384

_PRIMARIES = 3
_TIMEOUT_MILLISECONDS = 1000
_MIGRATE_KEYS = 100
_MIGRATE_MILLISECONDS = 5000


class ClusterSet:
    """The processes; on entering, all run and agree. The nodes are three primaries, then a replica of each."""

    def __init__(
        self,
        program: Path,
        folder: Path,
        access: Access | None = None,
        lines: Sequence[str] = (),
    ) -> None:
        self.access = access or Access()
        self.nodes = [
            ServerProcess(program, folder / f"node{number}", host, free_port(host), self.access)
            for number, host in enumerate(HOSTS)
        ]
        self._lines = lines
        self._bus_ports = [free_port(node.host) for node in self.nodes]

    @property
    def addresses(self) -> list[str]:
        """``host:port`` of each node."""
        return [node.address for node in self.nodes]

    def __enter__(self) -> Self:
        try:
            self._configure()
            for node in self.nodes:
                node.start()
            self._join()
            self.wait_until_whole()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for node in self.nodes:
            node.kill()

    def _configure(self) -> None:
        tls = self.access.certificates is not None
        for node, bus_port in zip(self.nodes, self._bus_ports, strict=True):
            lines = [
                "appendonly yes",
                'save ""',
                "repl-diskless-sync-delay 0",
                "repl-ping-replica-period 1",
                "cluster-enabled yes",
                "cluster-allow-replica-migration no",
                "cluster-require-full-coverage no",
                f"cluster-node-timeout {_TIMEOUT_MILLISECONDS}",
                f"cluster-port {bus_port}",
                f"cluster-announce-ip {node.host}",
                f"cluster-announce-{'tls-' if tls else ''}port {node.port}",
                f"cluster-announce-bus-port {bus_port}",
            ]
            if tls:
                lines.append("tls-cluster yes")
            users = [f"user {user}" for user in self.access.users]
            node.configure([*lines, *users, *self.access.replication_lines(), *self._lines])

    def _join(self) -> None:
        """Make a cluster of nodes that know nothing of each other."""
        for number, node in enumerate(self.nodes[:_PRIMARIES]):
            first, end = SLOTS * number // _PRIMARIES, SLOTS * (number + 1) // _PRIMARIES
            node.ask("CLUSTER", "ADDSLOTSRANGE", first, end - 1)
            node.ask("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
        for node, bus_port in zip(self.nodes[1:], self._bus_ports[1:], strict=True):
            self.nodes[0].ask("CLUSTER", "MEET", node.host, node.port, bus_port)
        wait_until(lambda: all(len(_known(node)) == len(self.nodes) for node in self.nodes))
        for primary, replica in zip(self.nodes[:_PRIMARIES], self.nodes[_PRIMARIES:], strict=True):
            replica.ask("CLUSTER", "REPLICATE", self._id(primary))

    def slot(self, key: str) -> int:
        """Return the slot of a key."""
        slot = self._running()[0].ask("CLUSTER", "KEYSLOT", key)
        assert isinstance(slot, int)
        return slot

    def owner(self, slot: int) -> ServerProcess:
        """Return the node that most of the running nodes regard as its owner; wait until one of them answers."""
        owners: list[str] = []

        def is_known() -> bool:
            owners.extend(owner for node in self._running() if (owner := _owners(node).get(slot)) is not None)
            return bool(owners)

        wait_until(is_known)
        winner = max(owners, key=owners.count)
        return next(node for node in self.nodes if node.address == winner)

    def replica_of(self, primary: ServerProcess) -> ServerProcess:
        """Return the running replica of a primary."""
        return next(
            node
            for node in self._running()
            if (state := node.info("replication")).get("role") == "slave"
            and f"{state.get('master_host')}:{state.get('master_port')}" == primary.address
        )

    def wait_until_whole(self) -> None:
        """Wait until all running nodes agree on the owners of all slots, and each replica follows its primary."""
        wait_until(self._is_whole)

    def wait_for_new_owner(self, slot: int, old: ServerProcess) -> ServerProcess:
        """Wait until all running nodes but ``old`` see another running node as the owner of ``slot``."""

        def is_moved() -> bool:
            owners = {_owners(node).get(slot) for node in self._running() if node is not old}
            return len(owners) == 1 and owners.isdisjoint({None, old.address})

        wait_until(is_moved)
        return self.owner(slot)

    def move_slot(self, slot: int, target: ServerProcess) -> int:
        """Move a slot with all its keys to another primary while clients use it; return how many keys moved."""
        source = self.owner(slot)
        self.begin_move(slot, target)
        moved = 0
        while count := self.move_keys(slot, source, target):
            moved += count
        self.end_move(slot, target)
        return moved

    def begin_move(self, slot: int, target: ServerProcess) -> None:
        """Begin to move a slot: keys of it that its owner lacks are asked for at ``target`` from now on."""
        source = self.owner(slot)
        target.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", self._id(source))
        source.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", self._id(target))

    def move_keys(self, slot: int, source: ServerProcess, target: ServerProcess) -> int:
        """Move up to a hundred keys of a slot that is being moved; return their number."""
        keys = source.ask("CLUSTER", "GETKEYSINSLOT", slot, _MIGRATE_KEYS)
        assert isinstance(keys, list)
        if keys:
            destination = (target.host, target.port, "", 0, _MIGRATE_MILLISECONDS)
            source.ask("MIGRATE", *destination, *self.access.migration_words(), "KEYS", *keys)
        return len(keys)

    def end_move(self, slot: int, target: ServerProcess) -> None:
        """Tell all primaries, the target first, who owns the slot, and wait until all nodes know."""
        others = [node for node in self._running() if node.info("replication").get("role") == "master"]
        for node in sorted(others, key=lambda node: node is not target):
            node.ask("CLUSTER", "SETSLOT", slot, "NODE", self._id(target))
        self.wait_until_whole()

    def _id(self, node: ServerProcess) -> str:
        return _text(node.ask("CLUSTER", "MYID"))

    def _running(self) -> list[ServerProcess]:
        return [node for node in self.nodes if node.runs]

    def _is_whole(self) -> bool:
        running = self._running()
        views = [_owners(node) for node in running]
        if any(len(view) != SLOTS or view != views[0] for view in views):
            return False
        owners = set(views[0].values())
        for node in running:
            state = node.info("replication")
            if node.address in owners:
                if state.get("role") != "master":
                    return False
            elif state.get("role") != "slave" or state.get("master_link_status") != "up":
                return False
        return all(b"cluster_state:ok" in _bytes(node.ask("CLUSTER", "INFO")) for node in running) and all(
            _is_connected(node, len(running)) for node in running
        )


def _known(node: ServerProcess) -> list[list[str]]:
    """The lines of CLUSTER NODES, in words."""
    try:
        reply = node.ask("CLUSTER", "NODES")
    except (RedisError, OSError):
        return []
    return [line.split() for line in _text(reply).splitlines()]


def _is_connected(node: ServerProcess, running: int) -> bool:
    """Whether this node is connected to that many, itself included, in which it sees no fault."""
    faults = {"fail", "fail?", "handshake"}
    states = [(words[7], words[2].split(",")) for words in _known(node)]
    return sum(link == "connected" and faults.isdisjoint(flags) for link, flags in states) >= running


def _owners(node: ServerProcess) -> dict[int, str]:
    """Which address owns each slot in the view of a node."""
    owners = {}
    for words in _known(node):
        address = words[1].partition("@")[0]
        for part in words[8:]:
            if part.startswith("["):  # a slot on the move
                continue
            first, _, last = part.partition("-")
            owners.update(dict.fromkeys(range(int(first), int(last or first) + 1), address))
    return owners


def _text(reply: object) -> str:
    return reply.decode() if isinstance(reply, bytes) else str(reply)


def _bytes(reply: object) -> bytes:
    return reply if isinstance(reply, bytes) else str(reply).encode()
