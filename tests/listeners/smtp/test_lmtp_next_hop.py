"""Mail through the SMTP listener to an LMTP server that leaves at any byte: nothing is lost or doubled."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from redis.asyncio import Redis

from nbstream.delivery.smtp_next_hop import SmtpNextHop
from tests.harness.scripted import relay_at
from tests.harness.smtp_listener import RunningSmtp, open_smtp_listener

RECIPIENTS = ("one@b.example", "two@b.example", "three@b.example")
MESSAGE = b"Subject: x\r\n\r\nhello\r\n.\r\n"
MAX_ROUNDS = 8
# The bytes that the server says in a connection with one message: every one of them is the last one once.
SPOKEN_BYTES = len(
    b"220 lmtp\r\n"
    + b"250-lmtp\r\n250 SIZE\r\n"
    + b"250 2.0.0 Ok\r\n" * 3
    + b"354 Go\r\n"
    + b"250 2.0.0 Saved\r\n"
)


class LeavingServer:
    """An LMTP server that takes all mail, and leaves after ``bytes_left`` bytes in all that it says.

    ``saved`` counts the messages by recipient, and ``answered`` those of them whose reply was said to its end.
    """

    def __init__(self) -> None:
        self.bytes_left = 0
        self.saved, self.answered = Counter[str](), Counter[str]()
        self._writers: list[asyncio.StreamWriter] = []

    @asynccontextmanager
    async def running(self) -> AsyncIterator[int]:
        """The port on which it listens."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            self.leave()
            server.close()

    def leave(self) -> None:
        """Close all connections."""
        for writer in self._writers:
            writer.close()
        self._writers.clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        recipients: list[str] = []
        is_there = self._say(writer, b"220 lmtp\r\n")
        while is_there and (line := await reader.readline()):
            command = line[:4]
            if command == b"LHLO":
                is_there = self._say(writer, b"250-lmtp\r\n250 SIZE\r\n")
            elif command == b"DATA":
                is_there = self._say(writer, b"354 Go\r\n") and await self._save(reader, writer, recipients)
            else:
                if command in {b"MAIL", b"RSET"}:
                    recipients.clear()
                elif command == b"RCPT":
                    recipients.append(line.decode().partition("<")[2].partition(">")[0])
                is_there = self._say(writer, b"250 2.0.0 Ok\r\n")
        writer.close()

    async def _save(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, recipients: list[str]
    ) -> bool:
        try:
            await reader.readuntil(b"\r\n.\r\n")
        except asyncio.IncompleteReadError:
            return False
        for recipient in recipients:
            self.saved[recipient] += 1
            if not self._say(writer, b"250 2.0.0 Saved\r\n"):
                return False
            self.answered[recipient] += 1
        return True

    def _say(self, writer: asyncio.StreamWriter, reply: bytes) -> bool:
        said, self.bytes_left = reply[: self.bytes_left], max(0, self.bytes_left - len(reply))
        writer.write(said)
        return said == reply


async def deliver(smtp: RunningSmtp, recipients: list[str]) -> list[str]:
    """Send as a mail server does, in one transaction; the recipients for whom the listener did not say 250."""
    dialogue = await smtp.talk()
    await dialogue.hello()
    accepted = list[str]()
    if (await dialogue.say("MAIL FROM:<a@b.example>")).startswith("250"):
        replies = {recipient: await dialogue.say(f"RCPT TO:<{recipient}>") for recipient in recipients}
        accepted = [recipient for recipient, reply in replies.items() if reply.startswith("250")]
    if accepted and (reply := await dialogue.say("DATA")).startswith("354"):
        dialogue.writer.write(MESSAGE)
        reply = await dialogue.reply()
    if accepted and not reply.startswith("250"):
        accepted = []
    dialogue.writer.close()
    return [recipient for recipient in recipients if recipient not in accepted]


@pytest.mark.parametrize("third", range(3))
async def test_a_server_that_leaves_at_any_byte(third: int, client: Redis, tmp_path: Path) -> None:
    server = LeavingServer()
    async with server.running() as port:
        next_hop = SmtpNextHop(relay_at(port, lmtp=True))
        async with open_smtp_listener(client, tmp_path / "m", next_hop) as smtp:
            for bytes_left in range(third, SPOKEN_BYTES + 1, 3):
                server.leave()
                server.saved.clear()
                server.answered.clear()
                server.bytes_left = bytes_left
                waiting, rounds = list(RECIPIENTS), 0
                while waiting:
                    waiting, rounds = await deliver(smtp, waiting), rounds + 1
                    server.bytes_left = 1 << 20  # it stays from now on
                    assert rounds <= MAX_ROUNDS

                assert server.answered == dict.fromkeys(RECIPIENTS, 1), bytes_left
                # Where it left within its reply nobody can know that it had saved the message.
                assert (server.saved - server.answered).total() <= 1, bytes_left


async def test_mail_in_flight_is_finished_by_a_drain(client: Redis, tmp_path: Path) -> None:
    server = LeavingServer()
    server.bytes_left = 1 << 20
    async with server.running() as port:
        next_hop = SmtpNextHop(relay_at(port, lmtp=True))
        async with open_smtp_listener(client, tmp_path / "m", next_hop) as smtp:
            dialogues = [await smtp.talk() for _ in range(50)]
            for dialogue in dialogues:
                await dialogue.begin(RECIPIENTS[0])

            draining = asyncio.create_task(smtp.listener.drain(30))
            for dialogue in dialogues:
                dialogue.writer.write(MESSAGE)

            assert [(await dialogue.reply())[:3] for dialogue in dialogues] == ["250"] * 50
            await draining
            assert server.saved == {RECIPIENTS[0]: 50}
