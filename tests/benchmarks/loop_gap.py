"""The longest gap of the event loop while hostile requests run: ``python -m tests.benchmarks.loop_gap``.

A filter with an HTTP listener runs in this process, over a Redis of its own. A heartbeat task notes the longest
time between two of its turns, and the longest CPU time of its thread between them. Meanwhile a client in another
process posts one text of 50 MB in each of several charsets, and then one message of 950 kB of each known recipe
that costs much. The target is 50 ms, on a machine that has nothing else to do: a gap is also the time in which
other processes had the processor. The CPU time is only what the event loop itself computed.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from nbstream.store.connection import ConnectionOptions, open_client
from nbstream.store.embedded.server_programs import find_servers
from tests.conftest import RedisServer
from tests.expensive_messages import KNOWN, SIZE, ordinary_text
from tests.listeners.http.http_listener import open_http
from tests.listeners.loop_work import HOSTILE, hostile_text

TARGET_SECONDS = 0.05
_LARGEST = 50 << 20
_BEAT_SECONDS = 0.001


class Heartbeat:
    """Notes the longest gap between two turns of the event loop."""

    def __init__(self) -> None:
        self.longest = self.longest_cpu = 0.0

    async def beat(self) -> None:
        """Beat until cancelled."""
        last, last_cpu = time.perf_counter(), time.thread_time()
        while True:
            await asyncio.sleep(_BEAT_SECONDS)
            now, cpu = time.perf_counter(), time.thread_time()
            self.longest = max(self.longest, now - last - _BEAT_SECONDS)
            self.longest_cpu = max(self.longest_cpu, cpu - last_cpu)
            last, last_cpu = now, cpu

    def take(self) -> tuple[float, float]:
        """Return the longest gap and the longest CPU time since the last call, in seconds."""
        longest = self.longest, self.longest_cpu
        self.longest = self.longest_cpu = 0.0
        return longest


@asynccontextmanager
async def beating() -> AsyncIterator[Heartbeat]:
    """Run a heartbeat for the block."""
    heartbeat = Heartbeat()
    task = asyncio.create_task(heartbeat.beat())
    try:
        yield heartbeat
    finally:
        task.cancel()


async def _post(url: str, path: Path, content_type: str) -> str:
    """Post a file by another process, whose work is not that of this loop; return the status."""
    arguments = ("--silent", "--output", "/dev/null", "--write-out", "%{http_code}", "--data-binary", f"@{path}")
    fields = ("--header", f"Content-Type: {content_type}", "--header", "Expect:")
    process = await asyncio.create_subprocess_exec(
        "curl", *arguments, *fields, url, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    return output.decode()


async def measure(size: int) -> None:
    """Print the longest gap for each request."""
    folder = Path(tempfile.mkdtemp(prefix="nbstream-loop-gap-"))
    server = RedisServer(find_servers()[0], folder)
    server.start()
    try:
        client = open_client(ConnectionOptions(server.url))
        body = folder / "body"
        async with open_http(client, folder) as http, beating() as heartbeat:

            async def report(name: str, content: bytes, path: str, content_type: str) -> None:
                await asyncio.to_thread(body.write_bytes, content)
                del content
                heartbeat.take()
                started = time.perf_counter()
                status = await _post(f"{http.url}{path}", body, content_type)
                seconds, (gap, cpu) = time.perf_counter() - started, heartbeat.take()
                over = " OVER" if gap > TARGET_SECONDS else ""
                milliseconds = f"{gap * 1000:7.1f} ms gap, {cpu * 1000:5.1f} ms CPU"
                print(f"{milliseconds}, {seconds:6.2f} s, status {status}: {name}{over}", flush=True)

            await report("ordinary text of 950 kB", ordinary_text(), "/v1/check", "message/rfc822")
            for charset in HOSTILE:
                text = hostile_text(charset, size)
                await report(f"{size} bytes in {charset}", text, "/v1/check", f"text/plain; charset={charset}")
            for name, recipe in KNOWN.items():
                await report(name, recipe.message(SIZE), "/v1/check", "message/rfc822")
        await client.aclose()
    finally:
        server.stop()


def main() -> None:
    """Measure, and print one line for each request."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=_LARGEST, help="bytes of a text in a hostile charset")
    asyncio.run(measure(parser.parse_args().size))


if __name__ == "__main__":
    main()
