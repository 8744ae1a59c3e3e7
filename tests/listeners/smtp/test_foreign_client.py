"""A client that knows nothing of nbstream: swaks, in each of the ways that mail may come in."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tests.harness.smtp_listener import RunningSmtp, Way

TLS = {Way.SMTP_STARTTLS: ["--tls"], Way.SMTP_TLS: ["--tls-on-connect"]}


async def test_swaks_delivers_to_two_recipients(reached: RunningSmtp, program: Callable[[str], str]) -> None:
    way = reached.way
    where = (
        ["--socket", str(reached.socket_path)] if way.is_unix else ["--server", f"{reached.host}:{reached.port}"]
    )
    words = [
        *(program("swaks"), *where, "--protocol", "LMTP" if way.listener_name == "lmtp" else "ESMTP"),
        *("--from", "a@example.org", "--to", "b@example.org,c@example.org", *TLS.get(way, [])),
    ]
    process = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE)
    out, _ = await process.communicate()

    assert process.returncode == 0, out.decode()
    assert out.count(b"250 2.0.0 Delivered to the Maildir") == (2 if way.listener_name == "lmtp" else 1)
    assert (b"TLS started" in out) == (way in TLS)
    (delivered,) = reached.delivered()
    assert b"X-Envelope-To: b@example.org\nX-Envelope-To: c@example.org\n" in delivered
    assert b"This is a test mailing" in delivered
