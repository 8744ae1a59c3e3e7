"""The next hop of a chaos run says for each message whether its 250 was read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.integration.daemon import free_port
from tests.soak.chaos.next_hop import Mood, NextHop, Reception, Reply
from tests.waiting import until

TRANSACTION = (b"EHLO a\r\n", b"MAIL FROM:<from@a.example>\r\n", b"RCPT TO:<to@b.example>\r\n", b"DATA\r\n")


@pytest.fixture
async def hop() -> AsyncIterator[NextHop]:
    async with NextHop(free_port()) as running:
        yield running


class Client:
    """A client that sends one message."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def begin(cls, hop: NextHop) -> Client:
        client = cls(*await asyncio.open_connection("127.0.0.1", hop.port))
        await client.reply()
        for line in TRANSACTION:
            client.writer.write(line)
            await client.reply()
        return client

    async def reply(self) -> bytes:
        """The last line of the next reply; nothing at the end."""
        while (line := await self.reader.readline())[3:4] == b"-":
            pass
        return line[:3]

    async def send(self) -> bytes:
        self.writer.write(b"Subject: a\r\n\r\n..b\r\n.\r\n")
        return await self.reply()


async def test_a_message_is_written_down_as_it_came(hop: NextHop) -> None:
    client = await Client.begin(hop)

    assert await client.send() == b"250"
    assert hop.receptions == [Reception("from@a.example", b"Subject: a\r\n\r\n.b\r\n", Reply.SENT)]
    client.writer.close()
    await until(lambda: hop.receptions[0].reply is Reply.READ)


async def test_of_a_connection_that_was_cut_nobody_knows_whether_the_250_was_read(hop: NextHop) -> None:
    client = await Client.begin(hop)
    await client.send()
    hop.cut()

    assert await client.reply() == b""
    assert hop.receptions[0].reply is Reply.SENT
    client.writer.close()


async def test_who_dies_after_data_has_the_message_and_sends_no_250(hop: NextHop) -> None:
    client = await Client.begin(hop)
    await hop.behave(Mood.DIES_AFTER_DATA)

    assert await client.send() == b""
    assert [reception.reply for reception in hop.receptions] == [Reply.NOT_SENT]
    client.writer.close()


async def test_what_is_deferred_is_not_written_down(hop: NextHop) -> None:
    client = await Client.begin(hop)
    await hop.behave(Mood.DEFERS)

    assert await client.send() == b"451"
    assert hop.receptions == []
    client.writer.close()


async def test_who_refuses_listens_again_afterwards(hop: NextHop) -> None:
    await hop.behave(Mood.REFUSES)
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", hop.port)
    await hop.behave(Mood.WELL)

    client = await Client.begin(hop)
    assert await client.send() == b"250"
    client.writer.close()


async def test_what_hung_is_cut_and_not_written_down(hop: NextHop) -> None:
    client = await Client.begin(hop)
    await hop.behave(Mood.HANGS)
    client.writer.write(b"Subject: a\r\n\r\n.\r\n")
    await hop.behave(Mood.WELL)

    assert await client.reply() == b""
    assert hop.receptions == []
    client.writer.close()
