"""A process with a mirror whose counts are shared: it looks at them all the time, and says if they are not whole.

Each lesson adds ``WEIGHT`` to the spam counts of all ``TOKENS``, and one spam message to the totals. So whatever
is committed has the same count for all of them, and as many messages.

It writes a line with its role whenever that changes. At its end, which is a line with the id of a change, it waits
for that change, and compares all counts with those of Redis.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nbstream.engine.choice import load_library
from nbstream.engine.table import TableFunctions
from nbstream.store.connection import ConnectionOptions, open_client
from nbstream.store.mirror.mirror import Mirror
from nbstream.store.mirror.shared_counts import SharedCounts
from nbstream.store.model.model import Model

TOKENS = [b"shared:%d" % n for n in range(200)]
WEIGHT = 1000


async def main(url: str, folder: Path) -> int:
    """Run until a line comes; return 0 if all was as it should be."""
    client = open_client(ConnectionOptions(url), retries=0)
    functions = TableFunctions(load_library())
    model = Model(client, "test", 3600)
    mirror = Mirror(model, 5.0, table_functions=functions, shared=SharedCounts(functions, folder))
    running = asyncio.create_task(mirror.run())
    last = asyncio.create_task(asyncio.to_thread(sys.stdin.buffer.readline))
    await mirror.loaded.wait()
    role, seen = "", 0
    while not last.done():
        if mirror.role != role:
            role = mirror.role
            print(role, flush=True)
        rows, totals = await mirror.look_up(TOKENS)
        messages = totals.messages[1]
        if not (rows[:, 1] == WEIGHT * messages).all() or rows[:, 0].any() or messages < seen:
            print(f"not whole: {messages} messages after {seen}, {rows[:, 1].tolist()}", flush=True)
            return 1
        seen = messages
        await asyncio.sleep(0)
    await mirror.wait_until_applied((await last).strip())
    theirs = (await model.counts()).snapshot()
    ours = mirror.snapshot()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await client.aclose()
    return int(as_dictionary(*ours) != as_dictionary(*theirs))


def as_dictionary(names: list[bytes], rows: NDArray[np.int64]) -> dict[bytes, list[int]]:
    """Return the counts by name."""
    return dict(zip(names, rows.tolist(), strict=True))


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1], Path(sys.argv[2]))))
