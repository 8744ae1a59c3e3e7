"""The embedded Redis of a state folder, and what is measured of it: CPU, reads, what it writes to its file."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from redis import Redis

from nbstream.store.embedded import EmbeddedRedis
from tests.benchmarks.speed.bench import Bench
from tests.benchmarks.speed.listeners import Side
from tests.benchmarks.speed.plan import BYTES_WRITTEN, READS
from tests.benchmarks.speed.processes import cpu_seconds


@contextmanager
def embedded_redis(state: Path) -> Iterator[Redis]:
    """Run the embedded server of a state folder; yields a client of it."""
    embedded = EmbeddedRedis(state)
    address = embedded.open()
    embedded.start()
    asyncio.run(embedded.ensure_running())
    try:
        with Redis(unix_socket_path=address) as client:
            yield client
    finally:
        embedded.close()


def client_of(state: Path) -> Redis:
    """Return a client of the embedded server of a state folder, which runs."""
    return Redis(unix_socket_path=str(state / "redis" / "redis.sock"))


@dataclass(frozen=True, slots=True)
class RedisProcess:
    """A Redis that was not started here."""

    pid: int

    @classmethod
    def of(cls, client: Redis) -> Self:
        """Return the server of a client."""
        server: Any = client.info("server")
        return cls(server["process_id"])

    @property
    def cpu_seconds(self) -> float:
        """User and system time until now."""
        return cpu_seconds(self.pid)

    redis_cpu_seconds = cpu_seconds


@dataclass(slots=True)
class RedisUses:
    """What the turns of a side were to its Redis: reads from its clients, and bytes of AOF, a message."""

    reads: list[float] = field(default_factory=list)
    written: list[float] = field(default_factory=list)

    def watch(self, side: Side, client: Redis) -> Side:
        """Return the side, whose turns are watched."""

        def load(seconds: float) -> tuple[int, float]:
            before = _info(client)
            count, took = side.load(seconds)
            after = _info(client)
            self.reads.append((after["total_reads_processed"] - before["total_reads_processed"]) / count)
            if after["aof_base_size"] == before["aof_base_size"]:  # it was not written anew meanwhile
                written = after["aof_current_size"] - before["aof_current_size"]
                self.written.append(written / count)
            return count, took

        return Side(side.servers, load)

    def record(self, bench: Bench, case: str) -> None:
        """Record both, of all turns."""
        bench.record(case, READS, *self.reads)
        if self.written:
            bench.record(case, BYTES_WRITTEN, *self.written)


def _info(client: Redis) -> dict[str, Any]:
    info: Any = client.info("everything")
    return dict(info)
