"""Another side of the protocol than our own: miltertest, which the authors of OpenDKIM test their milters with."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from redis.asyncio import Redis

from tests.harness.milter_listener import open_milter
from tests.harness.waiting import DEADLINE_SECONDS

SCRIPT = """
conn = mt.connect("inet:%d@127.0.0.1")
assert(mt.conninfo(conn, "client.example", "192.0.2.7") == nil)
for message = 1, 2 do
    assert(mt.mailfrom(conn, "<someone@elsewhere.example>") == nil)
    assert(mt.rcptto(conn, "<ann@example.org>") == nil)
    assert(mt.header(conn, "Subject", "hello") == nil)
    assert(mt.header(conn, "X-Spam-Flag", "NO") == nil)
    assert(mt.bodystring(conn, "a body\\r\\n") == nil)
    assert(mt.eom(conn) == nil)
    assert(mt.getreply(conn) == SMFIR_CONTINUE)
    assert(mt.eom_check(conn, MT_HDRINSERT, "X-Nbstream"))
    assert(mt.eom_check(conn, MT_HDRDELETE, "X-Spam-Flag"))
end
mt.disconnect(conn)
mt.echo("done")
"""


async def test_miltertest_is_answered(client: Redis, program: Callable[[str], str]) -> None:
    async with open_milter(client) as milter:
        process = await asyncio.create_subprocess_exec(
            program("miltertest"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        async with asyncio.timeout(DEADLINE_SECONDS):
            printed, _ = await process.communicate((SCRIPT % milter.port).encode())

        assert (process.returncode, printed) == (0, b"done\n")
        assert milter.metric("nbstream_messages_total", listener="milter", verdict="unsure") == 2
