"""Three servers, one of them the primary, under three sentinels, with deadlines of about a second."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Self

from redis.exceptions import RedisError

from tests.harness.daemon import free_port, wait_until
from tests.harness.redis.access import HOSTS, Access
from tests.harness.redis.server_process import ServerProcess

SERVICE = "nbstream"
"""The name of the primary's service in the sentinels' configuration."""

_DOWN_AFTER_MILLISECONDS = 1000
_FAILOVER_MILLISECONDS = 1000
_QUORUM = 2


class SentinelSet:
    """The processes; on entering, all run and agree. Server and sentinel of a number share one address.

    ``lines`` are further lines of the servers' configuration, such as ``min-replicas-to-write 1``.
    """

    def __init__(
        self,
        program: Path,
        folder: Path,
        access: Access | None = None,
        lines: Sequence[str] = (),
    ) -> None:
        self.access = access or Access()
        self.servers = [
            ServerProcess(program, folder / f"server{number}", host, free_port(host), self.access)
            for number, host in enumerate(HOSTS[:3])
        ]
        self.sentinels = [
            ServerProcess(program, folder / f"sentinel{number}", host, free_port(host), self.access, sentinel=True)
            for number, host in enumerate(HOSTS[:3])
        ]
        self._lines = lines

    @property
    def addresses(self) -> list[str]:
        """``host:port`` of each sentinel."""
        return [sentinel.address for sentinel in self.sentinels]

    def __enter__(self) -> Self:
        try:
            self.configure()
            for server in [*self.servers, *self.sentinels]:
                server.start()
            self.wait_until_whole()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for server in [*self.sentinels, *self.servers]:
            server.kill()

    def configure(self) -> None:
        """Write the configuration of each server and sentinel."""
        first, password = self.servers[0], self.access.password
        for server in self.servers:
            lines = [
                "appendonly yes",
                'save ""',
                "repl-diskless-sync-delay 0",
                "repl-ping-replica-period 1",
                f"replica-announce-ip {server.host}",
                f"replica-announce-port {server.port}",
            ]
            if server is not first:
                lines.append(f"replicaof {first.host} {first.port}")
            users = [f"user {user}" for user in self.access.users]
            server.configure([*lines, *users, *self.access.replication_lines(), *self._lines])
        for sentinel in self.sentinels:
            lines = [
                f"sentinel monitor {SERVICE} {first.host} {first.port} {_QUORUM}",
                f"sentinel down-after-milliseconds {SERVICE} {_DOWN_AFTER_MILLISECONDS}",
                f"sentinel failover-timeout {SERVICE} {_FAILOVER_MILLISECONDS}",
                f"sentinel announce-ip {sentinel.host}",
                f"sentinel announce-port {sentinel.port}",
            ]
            if password is not None:
                lines += [f"sentinel auth-pass {SERVICE} {password}", f"sentinel sentinel-pass {password}"]
            sentinel.configure([*lines, *(f"user {user}" for user in self.access.sentinel_users)])

    def primary(self) -> ServerProcess:
        """Return the server that most of the running sentinels name; wait until one of them answers."""
        votes: list[str] = []

        def is_known() -> bool:
            votes.extend(filter(None, map(_named_by, self._running(self.sentinels))))
            return bool(votes)

        wait_until(is_known)
        winner = max(votes, key=votes.count)
        return next(server for server in self.servers if server.address == winner)

    def replicas(self) -> list[ServerProcess]:
        """Return all servers but the primary, those that do not run too."""
        primary = self.primary()
        return [server for server in self.servers if server is not primary]

    def wait_until_whole(self) -> None:
        """Wait until all running servers follow one primary, and the running sentinels know all of them."""
        wait_until(self._is_whole)

    def wait_for_new_primary(self, old: ServerProcess) -> ServerProcess:
        """Wait until most sentinels name a server other than ``old`` that is the primary by its own account."""

        def is_moved() -> bool:
            named = [_named_by(sentinel) for sentinel in self._running(self.sentinels)]
            others = [address for address in named if address and address != old.address]
            return 2 * len(others) > len(self.sentinels) and _role(self.primary()) == "master"

        wait_until(is_moved)
        return self.primary()

    def _is_whole(self) -> bool:
        running, sentinels = self._running(self.servers), self._running(self.sentinels)
        primaries = [server for server in running if _role(server) == "master"]
        if len(primaries) != 1:
            return False
        (primary,) = primaries
        return (
            all(_follows(server, primary) for server in running if server is not primary)
            and primary.info("replication").get("connected_slaves") == len(running) - 1
            and all(_named_by(sentinel) == primary.address for sentinel in sentinels)
            and all(_knows(sentinel, len(sentinels) - 1, len(running) - 1) for sentinel in sentinels)
        )

    @staticmethod
    def _running(servers: Sequence[ServerProcess]) -> list[ServerProcess]:
        return [server for server in servers if server.runs]


def _role(server: ServerProcess) -> object:
    return server.info("replication").get("role")


def _follows(replica: ServerProcess, primary: ServerProcess) -> bool:
    state = replica.info("replication")
    address = f"{state.get('master_host')}:{state.get('master_port')}"
    return (address, state.get("master_link_status")) == (primary.address, "up")


def _named_by(sentinel: ServerProcess) -> str | None:
    try:
        reply = sentinel.ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE)
    except (RedisError, OSError):
        return None
    if not isinstance(reply, list | tuple):
        return None
    host, port = (part.decode() if isinstance(part, bytes) else str(part) for part in reply)
    return f"{host}:{port}"


def _knows(sentinel: ServerProcess, sentinels: int, replicas: int) -> bool:
    """Whether it can talk to that many other sentinels and replicas, and finds nothing wrong."""
    try:
        commands = (("SENTINELS", SERVICE), ("REPLICAS", SERVICE), ("MASTERS",))
        lists = [sentinel.ask("SENTINEL", *words) for words in commands]
    except (RedisError, OSError):
        return False
    faults = ("s_down", "o_down", "disconnected", "failover_in_progress")
    usable = [
        sum(not any(fault in entry["flags"] for fault in faults) for entry in entries)
        for entries in map(_entries, lists)
    ]
    return usable[0] >= sentinels and usable[1] >= replicas and usable[2] == 1


def _entries(reply: object) -> list[dict[str, str]]:
    """Return the entries of a SENTINEL reply, which redis-py gives as mappings or as flat lists."""
    assert isinstance(reply, list)
    entries = []
    for entry in reply:
        pairs = entry.items() if isinstance(entry, dict) else zip(entry[::2], entry[1::2], strict=True)
        texts = [[part.decode() if isinstance(part, bytes) else str(part) for part in pair] for pair in pairs]
        entries.append(dict(texts))
    return entries
