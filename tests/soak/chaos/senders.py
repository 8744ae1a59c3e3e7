"""Clients that send mail over SMTP, and send it again until it is accepted, as a mail server does."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.soak.chaos.journal import Journal, MailAttempt, MailOutcome
from tests.soak.chaos.mails import mail
from tests.soak.chaos.site import HELD_DOMAIN, Host, Site

REPLY_SECONDS = 15.0
_PAUSE_SECONDS = 0.05
_RETRY_SECONDS = 0.3


class SmtpRefusal(Exception):
    """A reply other than the one that the client needs to go on."""


class SmtpTransaction:
    """One transaction on a connection of its own; ``sent`` says that the whole message is on its way."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self.sent = False

    async def deliver(self, sender: str, recipient: str, content: bytes) -> str:
        """Send a message with LF line ends, and return the reply to it.

        Raises ``SmtpRefusal`` for a reply that is no success, ``OSError`` or ``EOFError`` for a broken connection.
        """
        await self._expect(2)
        for line in (
            b"EHLO client.example",
            b"MAIL FROM:<%b>" % sender.encode(),
            b"RCPT TO:<%b>" % recipient.encode(),
        ):
            await self._say(line, 2)
        await self._say(b"DATA", 3)
        stuffed = content.replace(b"\n.", b"\n..").replace(b"\n", b"\r\n")
        self.sent = True
        self._writer.write(stuffed + b".\r\n")
        return await self._expect(2)

    async def _say(self, line: bytes, positive: int) -> None:
        self._writer.write(line + b"\r\n")
        await self._expect(positive)

    async def _expect(self, positive: int) -> str:
        lines = []
        async with asyncio.timeout(REPLY_SECONDS):
            while True:
                line = await self._reader.readline()
                if not line.endswith(b"\n"):
                    raise EOFError("the connection was closed")
                lines.append(line.decode("utf-8", "replace").strip())
                if line[3:4] != b"-":
                    break
        if not lines[-1].startswith(str(positive)):
            raise SmtpRefusal(lines[-1])
        return lines[-1]


@asynccontextmanager
async def smtp_transaction(host: Host) -> AsyncIterator[SmtpTransaction]:
    """Connect, and break the connection at the end. Raises ``OSError``."""
    async with asyncio.timeout(REPLY_SECONDS):
        reader, writer = await asyncio.open_connection("127.0.0.1", host.ports.smtp)
    try:
        yield SmtpTransaction(reader, writer)
    finally:
        writer.transport.abort()


def sender_address(number: int, attempt: int) -> str:
    """Return the sender of one attempt, so that what arrives says which attempt it was."""
    return f"m{number}.{attempt}@sender.example"


class Senders:
    """``count`` clients, which send one message after the other until ``finish``."""

    def __init__(self, site: Site, seed: int, count: int) -> None:
        self._site = site
        self._seed = seed
        self._count = count
        self._next_number = 0
        self._finishing = asyncio.Event()

    def finish(self) -> None:
        """Begin no further message."""
        self._finishing.set()

    async def run(self) -> None:
        """Send until ``finish``, and until every message that was begun is accepted."""
        async with asyncio.TaskGroup() as group:
            for client in range(self._count):
                group.create_task(self._send_all(random.Random(f"{self._seed} {client}")))

    async def _send_all(self, generator: random.Random) -> None:
        while not self._finishing.is_set():
            self._next_number += 1
            await self._send_until_accepted(self._next_number, generator)
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _send_until_accepted(self, number: int, generator: random.Random) -> None:
        attempt = 0
        while True:
            attempt += 1
            host = generator.choice(list(self._site.hosts.values()))
            done = await send_mail(self._site.journal, host, number, attempt)
            if done.outcome is MailOutcome.ACKNOWLEDGED:
                return
            await asyncio.sleep(_RETRY_SECONDS)


async def send_mail(journal: Journal, host: Host, number: int, attempt: int) -> MailAttempt:
    """Send message ``number`` once, and write down what the client knows of it then."""
    begun = journal.now()
    outcome, reply = MailOutcome.NOT_SENT, ""
    transaction: SmtpTransaction | None = None
    try:
        async with smtp_transaction(host) as transaction:
            domain = HELD_DOMAIN if number % 5 == 0 else "example.net"
            reply = await transaction.deliver(sender_address(number, attempt), f"to@{domain}", mail(number))
            outcome = MailOutcome.ACKNOWLEDGED
    except SmtpRefusal as refusal:
        outcome, reply = MailOutcome.REFUSED, str(refusal)
    except (OSError, EOFError) as error:  # TimeoutError is an OSError
        reply = f"{type(error).__name__}: {error}"
        if transaction and transaction.sent:
            outcome = MailOutcome.UNKNOWN
    done = MailAttempt(number, attempt, host.name, begun, journal.now(), outcome, reply)
    journal.add_mail(done)
    return done
