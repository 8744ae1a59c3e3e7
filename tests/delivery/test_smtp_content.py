"""A message arrives as it was, judged by a foreign server."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiosmtpd.smtp import SMTP, Envelope, Session
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nbstream.delivery.next_hop import SmtpPath
from nbstream.delivery.smtp_next_hop import NextHopConnection, SmtpNextHop, dot_stuffed_pieces
from nbstream.mail.lines import PIECE_BYTES
from tests.harness.scripted import relay_at

lines = st.lists(
    st.one_of(
        st.sampled_from([b"", b".", b"..", b".x", b"x.", b"\0"]),
        st.binary(max_size=8).map(lambda line: line.replace(b"\r", b"").replace(b"\n", b"")),
    ),
    max_size=8,
)
contents = st.builds(
    lambda some_lines, end: b"\r\n".join(some_lines) + end, lines, st.sampled_from([b"", b"\r\n"])
)


class LongLines(SMTP):
    line_length_limit = 10**9


class Sink:
    """Keeps the last message."""

    content = b""

    async def handle_DATA(self, _server: SMTP, _session: Session, envelope: Envelope) -> str:
        assert isinstance(envelope.content, bytes)
        self.content = envelope.content
        return "250 2.0.0 Kept"


class Received:
    """A relay and the sink behind it."""

    def __init__(self, relay: SmtpNextHop, sink: Sink) -> None:
        self._relay, self._sink = relay, sink

    async def of(self, content: bytes) -> bytes:
        """What the sink has when this was sent."""
        transaction = await self._relay.begin(SmtpPath("alice@a.test"))
        await transaction.rcpt(SmtpPath("bob@b.test"))
        assert (await transaction.data(content)).accepted
        return self._sink.content


@pytest.fixture
async def received() -> AsyncIterator[Received]:
    sink = Sink()
    options: dict[str, Any] = {"data_size_limit": None, "hostname": "sink.test"}
    server = await asyncio.get_running_loop().create_server(lambda: LongLines(sink, **options), "127.0.0.1", 0)
    relay = SmtpNextHop(relay_at(server.sockets[0].getsockname()[1]))
    yield Received(relay, sink)
    await relay.close()
    server.close()
    await server.wait_closed()


@given(content=contents)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])  # messages share one connection, as in life
async def test_what_arrives_is_what_was_sent_and_a_last_line_end(content: bytes, received: Received) -> None:
    expected = content if not content or content.endswith(b"\r\n") else content + b"\r\n"

    assert await received.of(content) == expected


@pytest.mark.parametrize(
    ("piece", "times"), [(b"text\r\n", 700_000), (b"x", 4_000_000)], ids=["lines", "one line"]
)
async def test_other_tasks_run_between_two_pieces_of_a_large_message(
    piece: bytes, times: int, received: Received, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = piece * times
    turn, written, write = 0, Counter[int](), NextHopConnection.write

    async def count_turns() -> None:
        nonlocal turn
        while True:
            await asyncio.sleep(0)
            turn += 1

    def count_bytes(protocol: NextHopConnection, data: bytes) -> None:
        written[turn] += len(data)
        write(protocol, data)

    monkeypatch.setattr(NextHopConnection, "write", count_bytes)
    counting = asyncio.create_task(count_turns())
    await received.of(content)
    counting.cancel()

    assert written.total() > len(content)
    assert max(written.values()) <= PIECE_BYTES


async def test_no_line_makes_a_piece_large() -> None:
    content = b".." + b"." * 4 * PIECE_BYTES + b"\r\n.\r\n"

    pieces = await dot_stuffed_pieces(content, b"")

    assert max(map(len, pieces)) <= PIECE_BYTES + 2
    assert b"".join(pieces) == b"." + content[:-3] + b"..\r\n.\r\n"
