"""Lessons through HTTP, one at a time over each connection, beside rspamd's controller with its Redis.

Each turn has other messages, which no model knows, the same for all sides. Ours are synced to disk before each
answer; beside them stands a daemon whose Redis has no file. That of rspamd has none either.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

from tests.benchmarks.speed import clients
from tests.benchmarks.speed.bench import Bench, Labelled
from tests.benchmarks.speed.daemons import daemon, taught, write_config
from tests.benchmarks.speed.figures import OURS
from tests.benchmarks.speed.listeners import Side, in_turns, run_load
from tests.benchmarks.speed.plan import RSPAMD, UNSYNCED, http_lessons
from tests.benchmarks.speed.processes import Measured
from tests.benchmarks.speed.redis_use import RedisUses, client_of
from tests.benchmarks.speed.rspamd import rspamd


def run(bench: Bench) -> None:
    """Measure each number of connections, and go on with the messages behind those of the former one."""
    unseen = bench.unseen
    with ExitStack() as stack:
        servers: dict[str, tuple[str, tuple[Measured, ...]]] = {}
        states = {who: taught(bench) for who in (OURS, UNSYNCED)}
        for who, state in states.items():
            ours = stack.enter_context(daemon(write_config(state)))
            servers[who] = ours.address("http"), (ours.server,)
        client, unsynced = (stack.enter_context(client_of(state)) for state in states.values())
        unsynced.config_set("appendonly", "no")
        with bench.skipping(RSPAMD):
            theirs = stack.enter_context(
                rspamd(bench.new_folder("rspamd"), bench.shared / "rspamd.rdb", bench.taught)
            )
            servers[RSPAMD] = f"127.0.0.1:{theirs.controller}", (theirs.server, theirs.redis)
        for connections, count in bench.scale.lessons:
            size = count * (1 + bench.scale.rounds)
            messages, unseen = unseen[:size], unseen[size:]
            sides = {
                who: _side(address, programs, messages, count, connections)
                for who, (address, programs) in servers.items()
            }
            uses = RedisUses()
            sides[OURS] = uses.watch(sides[OURS], client)
            in_turns(bench, http_lessons(connections), sides)
            uses.record(bench, http_lessons(connections))


def _side(
    address: str, programs: tuple[Measured, ...], messages: Sequence[Labelled], count: int, connections: int
) -> Side:
    """One side, which learns the next ``count`` messages in each turn."""
    turns = iter([messages[first : first + count] for first in range(0, len(messages), count)])

    async def connect() -> clients.Connection:
        return await clients.Http.to(address)

    def load(_: float) -> tuple[int, float]:
        requests = [clients.Http.request(f"/learn{label}", path.read_bytes()) for label, path in next(turns)]
        return run_load(clients.all_of(connect, requests, connections))

    return Side(programs, load)
