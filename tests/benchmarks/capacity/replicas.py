"""What replicas cost the primary, and what a lesson costs a replica: CPU of real servers on loopback."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import RedisError

from nbstream.assembly.filter import make_filter
from nbstream.assembly.policy import make_message_reader
from nbstream.cli.generated_mail import GeneratedMail
from nbstream.config import Settings
from nbstream.store.connection import ConnectionOptions, open_client
from nbstream.store.embedded.server_programs import find_servers
from nbstream.store.model.model import temporary_model
from tests.benchmarks.capacity import measuring
from tests.benchmarks.capacity.redis_costs import main_thread_seconds
from tests.benchmarks.speed.processes import CannotMeasure, free_port, served
from tests.waiting import until

_ROUNDS = 3
_END_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class ReplicaCosts:
    """CPU seconds for each lesson: of the primary alone, by the number of replicas, and of a replica."""

    primary: dict[int, float]
    replica: float


async def measure_replicas(mail: Sequence[GeneratedMail], numbers: Sequence[int]) -> ReplicaCosts:
    """Commit lessons to a primary with each of these numbers of replicas; raises ``CannotMeasure``."""
    reader, settings = make_message_reader(Settings()), Settings()
    primary_costs: dict[int, float] = {}
    replica_cost = 0.0
    for number in numbers:
        async with _servers(number) as (primary, replicas), temporary_model(primary, "replicas", 3600) as model:
            spam_filter = make_filter(settings, model, model)
            taught = await measuring.teach_mail(spam_filter, model, mail, reader)
            values, on_replica = [], []
            for turn in range(_ROUNDS):
                before = [await main_thread_seconds(client) for client in (primary, *replicas)]
                await measuring.commit_copies(model, taught, f"-{turn}")
                await _until_equal(primary, replicas)
                after = [await main_thread_seconds(client) for client in (primary, *replicas)]
                used = [(b - a) / len(taught.entries) for a, b in zip(before, after, strict=True)]
                values.append(used[0])
                on_replica += used[1:]
            primary_costs[number] = sorted(values)[_ROUNDS // 2]
            replica_cost = sorted(on_replica)[len(on_replica) // 2] if on_replica else replica_cost
    return ReplicaCosts(primary_costs, replica_cost)


@asynccontextmanager
async def _servers(replicas: int) -> AsyncIterator[tuple[Redis, list[Redis]]]:
    programs = find_servers()
    if not programs:
        raise CannotMeasure("no redis-server: apt install redis-server")
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="nb")))
        ports = [free_port() for _ in range(replicas + 1)]
        found = []
        for number, port in enumerate(ports):
            state = folder / str(number)
            state.mkdir()
            words: list[str | Path] = [programs[0], "--port", str(port), "--dir", state, "--save", ""]
            words += ["--appendonly", "yes", "--appendfsync", "everysec", "--repl-diskless-sync-delay", "0"]
            words += ["--replicaof", "127.0.0.1", str(ports[0])] if number else []
            server = stack.enter_context(served(words, folder / f"{number}.log", state))
            client = open_client(ConnectionOptions(f"redis://127.0.0.1:{port}"))
            stack.push_async_callback(client.aclose)
            await until(lambda client=client: _answers(client))  # type: ignore[misc]  # bound in this round
            assert server.process.poll() is None
            found.append(client)
        for client in found[1:]:
            await until(lambda client=client: _is_linked(client))  # type: ignore[misc]  # bound in this round
        yield found[0], found[1:]


async def _answers(client: Redis) -> bool:
    try:
        return bool(await client.ping())
    except RedisError:  # it is starting
        return False


async def _is_linked(client: Redis) -> bool:
    info: Any = await client.info("replication")
    return bool(info.get("master_link_status") == "up")


async def _until_equal(primary: Redis, replicas: Sequence[Redis]) -> None:
    if replicas:
        acknowledged: Any = await primary.wait(len(replicas), round(1000 * _END_SECONDS))
        if acknowledged < len(replicas):
            raise CannotMeasure("a replica does not follow")
