"""LMTP (RFC 2033): a reply for each recipient after the message, whatever the server does between them."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from nbstream.delivery.next_hop import DataReplies, SmtpPath, SmtpReply
from nbstream.delivery.settings import RelaySettings
from nbstream.delivery.smtp_next_hop import SmtpNextHop
from nbstream.errors import RelayUnavailable
from tests.harness.redis.access import Certificates
from tests.harness.scripted import Play, relay_at
from tests.harness.scripted_server import DEADLINE_SECONDS, ScriptedServer

ALICE, BOB, CAROL, DAVE = (SmtpPath(f"{name}@a.test") for name in ("alice", "bob", "carol", "dave"))

LmtpTo = Callable[..., SmtpNextHop]


@pytest.fixture
async def lmtp_to() -> AsyncIterator[LmtpTo]:
    """Make a next hop that speaks LMTP to a server, with these limits."""
    async with AsyncExitStack() as stack:

        def make(port: int, **limits: float) -> SmtpNextHop:
            next_hop = SmtpNextHop(relay_at(port, lmtp=True, **limits))
            stack.push_async_callback(next_hop.close)
            return next_hop

        yield make


async def send(next_hop: SmtpNextHop, *recipients: SmtpPath) -> DataReplies:
    transaction = await next_hop.begin(ALICE)
    for recipient in recipients:
        await transaction.rcpt(recipient)
    return await transaction.data(b"hello\r\n")


ASK = "C: MAIL FROM:<alice@a.test>\nS: 250 2.1.0 Ok\n"
ASK_BOB, ASK_CAROL = (f"C: RCPT TO:<{name}@a.test>\nS: 250 2.1.5 Ok\n" for name in ("bob", "carol"))
ASK_DAVE = "C: RCPT TO:<dave@a.test>\nS: 550 5.1.1 Unknown\n"
DATA = "C: DATA\nS: 354 Go\nC: hello\nC: .\n"
TO_BOB_AND_CAROL = ASK + ASK_BOB + ASK_CAROL + DATA
SAVED = "S: 250 2.0.0 Saved\n"
SAVED_REPLY, MISSING = SmtpReply(250, "2.0.0 Saved"), 451


async def test_each_accepted_recipient_has_a_reply_of_its_own(play: Play, lmtp_to: LmtpTo) -> None:
    first = ASK + ASK_BOB + ASK_DAVE + ASK_CAROL + DATA + "S: 250-2.0.0 Saved\nS: 250 2.0.0 for bob\n"
    server = await play(first + "S: 452 4.2.2 Mailbox full\n" + ASK + ASK_BOB + DATA + SAVED, lmtp=True)
    next_hop = lmtp_to(server.port)

    assert await send(next_hop, BOB, DAVE, CAROL) == DataReplies(
        (SmtpReply(250, "2.0.0 Saved\n2.0.0 for bob"), SmtpReply(452, "4.2.2 Mailbox full"))
    )
    assert await send(next_hop, BOB) == DataReplies((SAVED_REPLY,))  # on the same connection
    await server.played()


async def test_a_unix_socket(tmp_path: Path) -> None:
    path = tmp_path / "lmtp"
    server = ScriptedServer([ASK + ASK_BOB + DATA + SAVED], lmtp=True, socket_path=path)
    await server.start()
    next_hop = SmtpNextHop(RelaySettings.model_validate({"next_hop": f"lmtp:unix:{path}"}))

    assert await send(next_hop, BOB) == DataReplies((SAVED_REPLY,))
    await server.played()
    await server.stop()
    await next_hop.close()
    with pytest.raises(RelayUnavailable):
        await next_hop.begin(ALICE)


async def test_a_refusal_of_data_holds_for_all_recipients(play: Play, lmtp_to: LmtpTo) -> None:
    refused = ASK + ASK_BOB + ASK_CAROL + "C: DATA\nS: 451 4.3.0 Not now\nC: RSET\nS: 250 2.0.0 Ok\n"
    server = await play(refused, lmtp=True)

    replies = await send(lmtp_to(server.port), BOB, CAROL)

    assert replies.per_recipient(2) == (SmtpReply(451, "4.3.0 Not now"),) * 2
    await server.played()


@pytest.mark.parametrize(
    "rest",
    ["S: drop\n", "S: hello?\nC: gone\n", "S: 354 Go\nC: gone\n", "C: gone\n"],
    ids=["close", "garbage", "out of turn", "silence"],
)
async def test_what_was_accepted_stays_accepted(rest: str, play: Play, lmtp_to: LmtpTo) -> None:
    server = await play(TO_BOB_AND_CAROL + SAVED + rest, ASK + ASK_BOB + DATA + SAVED, lmtp=True)
    next_hop = lmtp_to(server.port, reply_timeout_seconds=2)

    replies = (await send(next_hop, BOB, CAROL)).per_recipient(2)

    assert [reply.code for reply in replies] == [250, MISSING]
    assert await send(next_hop, BOB) == DataReplies((SAVED_REPLY,))  # on another connection
    await server.played()


class RawServer:
    """A server that takes every recipient, and answers the message with these bytes, in pieces of this size."""

    def __init__(self, answer: bytes, piece_bytes: int, context: ssl.SSLContext | None) -> None:
        self._answer, self._piece_bytes, self._context = answer, piece_bytes, context

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 hello\r\n")
        if self._context:
            await reader.readline()
            writer.write(b"250-hello\r\n250 STARTTLS\r\n")
            await reader.readline()
            writer.write(b"220 2.0.0 Ready\r\n")
            await writer.start_tls(self._context)
        while not (command := await reader.readline()).startswith(b"DATA"):
            assert command
            writer.write(b"250 2.0.0 Ok\r\n")
        writer.write(b"354 Go\r\n")
        await reader.readuntil(b"\r\n.\r\n")
        for start in range(0, len(self._answer), self._piece_bytes):
            writer.write(self._answer[start : start + self._piece_bytes])
            await writer.drain()
        writer.transport.abort()  # within TLS without its end, as a server that dies


async def codes_after(
    answer: bytes, piece_bytes: int, recipients: int, certificates: Certificates | None = None
) -> list[int]:
    """The codes for the recipients of a message after which the server says that and goes away; 0 for no reply.

    With certificates it is within TLS.
    """
    context, tls = None, dict[str, str]()
    if certificates:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificates.certificate, certificates.key)
        tls = {"tls": "verify", "tls_ca_file": str(certificates.authority)}
    server = await asyncio.start_server(RawServer(answer, piece_bytes, context).serve, "127.0.0.1", 0)
    next_hop = SmtpNextHop(relay_at(server.sockets[0].getsockname()[1], lmtp=True, **tls))
    try:
        async with asyncio.timeout(DEADLINE_SECONDS):
            replies = await send(next_hop, *[BOB] * recipients)
        return [reply.code for reply in replies.per_recipient(recipients)]
    except RelayUnavailable:
        return [0] * recipients
    finally:
        await next_hop.close()
        server.close()


ANSWER = b"250 2.0.0 Saved\r\n452-4.2.2 Mailbox\r\n452 4.2.2 full\r\n250 2.0.0 Saved\r\n"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory, program: Callable[[str], str]) -> Certificates:
    return Certificates.make(program("openssl"), tmp_path_factory.mktemp("certificates"))


@pytest.mark.parametrize(("piece_bytes", "is_within_tls"), [(1, False), (1000, False), (1, True)])
async def test_a_server_that_leaves_at_any_byte_of_its_replies(
    piece_bytes: int, is_within_tls: bool, certificates: Certificates
) -> None:
    shown = certificates if is_within_tls else None
    ends = [ANSWER.index(b"\n") + 1, ANSWER.index(b"full\r\n") + 6, len(ANSWER)]

    for length in range(len(ANSWER) + 1):
        whole = sum(length >= end for end in ends)
        expected = ([250, 452, 250][:whole] + [MISSING] * (3 - whole)) if whole else [0] * 3
        assert await codes_after(ANSWER[:length], piece_bytes, 3, shown) == expected, length
