"""TLS towards clients: what is offered, required and refused, and what a handshake may not bring along."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
import uvloop
from redis.asyncio import Redis

from nbstream.addresses import TcpAddress
from nbstream.daemon.metrics import DaemonMetrics
from nbstream.delivery.maildir import MaildirNextHop
from nbstream.delivery.quarantine import Quarantine
from nbstream.engine.choice import PYTHON
from nbstream.listeners.smtp.session import SmtpListener
from nbstream.listeners.smtp.settings import SmtpListenerSettings, TlsMode
from nbstream.server.limits import ListenerLimits
from nbstream.server.message_service import MessageService
from nbstream.server.sockets import open_listening_socket
from nbstream.store.model.memory_model import MemoryModel
from tests.harness.memory_filter import memory_filter
from tests.harness.redis.access import Certificates
from tests.harness.runtimes import make_runtime
from tests.harness.smtp_listener import Dialogue, RunningSmtp, Way, open_smtp_listener, server_context
from tests.harness.waiting import until

MESSAGE = b"From: a@example.org\r\nSubject: hello\r\n\r\nHow are you?\r\n"


async def plain(smtp: RunningSmtp) -> Dialogue:
    """A client that has said EHLO and not STARTTLS."""
    dialogue = await smtp.talk()
    await dialogue.reply()
    await dialogue.say("EHLO client.example.org")
    return dialogue


@pytest.mark.parametrize(
    ("mode", "mail", "starttls"),
    [(TlsMode.OFF, "250", "502"), (TlsMode.MAY, "250", "220"), (TlsMode.REQUIRE, "530", "220")],
)
async def test_without_tls_a_client_may_do_what_the_mode_says(
    client: Redis, tmp_path: Path, certificates: Certificates, mode: TlsMode, mail: str, starttls: str
) -> None:
    async with open_smtp_listener(client, tmp_path / "m", certificates=certificates, tls=mode) as smtp:
        dialogue = await smtp.talk()
        await dialogue.reply()
        hello = await dialogue.say("EHLO client.example.org")

        assert ("STARTTLS" in hello) == (mode is not TlsMode.OFF)
        assert (await dialogue.say("XFORWARD ADDR=192.0.2.1")).startswith(mail)
        assert (await dialogue.say("MAIL FROM:<a@b>")).startswith(mail)
        assert (await dialogue.say("RSET")).startswith("250")
        assert (await dialogue.say("STARTTLS now")).startswith("501")
        assert (await dialogue.say("STARTTLS")).startswith(starttls)


async def test_within_tls_mail_is_taken_where_it_is_required_and_tls_is_not_offered_again(
    client: Redis, tmp_path: Path, certificates: Certificates
) -> None:
    async with open_smtp_listener(
        client, tmp_path / "m", way=Way.SMTP_STARTTLS, certificates=certificates, tls=TlsMode.REQUIRE
    ) as smtp:
        dialogue = await smtp.talk()

        assert "STARTTLS" not in await dialogue.hello()
        assert (await dialogue.say("STARTTLS")).startswith("502")
        assert (await dialogue.say("AUTH PLAIN AGEAYg==")) == "502 5.5.1 AUTH is not offered"
        assert (await smtp.send(MESSAGE)).startswith("250 ")


async def test_nothing_of_what_was_said_before_tls_is_known_after_it(
    client: Redis, tmp_path: Path, certificates: Certificates
) -> None:
    async with open_smtp_listener(client, tmp_path / "m", certificates=certificates, tls=TlsMode.MAY) as smtp:
        dialogue = await plain(smtp)
        await dialogue.say("XFORWARD ADDR=192.0.2.1")
        await dialogue.say("MAIL FROM:<a@b>")

        await dialogue.start_tls()

        assert (await dialogue.say("RCPT TO:<c@d>")).startswith("503 5.5.1 Send MAIL first")
        assert (await dialogue.say("MAIL FROM:<a@b>")).startswith("503 5.5.1 Send EHLO")
        assert "XVERDICT" in await dialogue.say("EHLO client.example.org")


@pytest.mark.parametrize("injected", [b"MAIL FROM:<evil@b>\r\n", b"R", b"\r\n", b"\x16\x03\x01"])
async def test_what_is_written_behind_starttls_is_never_taken_for_a_part_of_the_encrypted_session(
    client: Redis, tmp_path: Path, certificates: Certificates, injected: bytes
) -> None:
    async with open_smtp_listener(client, tmp_path / "m", certificates=certificates, tls=TlsMode.MAY) as smtp:
        dialogue = await plain(smtp)

        dialogue.writer.write(b"STARTTLS\r\n" + injected)

        assert (await dialogue.reply()).startswith("503 5.5.1 Nothing may follow STARTTLS")


async def test_what_comes_in_place_of_a_handshake_ends_the_connection(
    client: Redis, tmp_path: Path, certificates: Certificates
) -> None:
    for mode, ready in ((TlsMode.MAY, b"STARTTLS\r\n"), (TlsMode.IMPLICIT, b"")):
        async with open_smtp_listener(client, tmp_path / "m", certificates=certificates, tls=mode) as smtp:
            dialogue = await (smtp.talk() if mode is TlsMode.IMPLICIT else plain(smtp))
            if ready:
                assert (await dialogue.say(ready.rstrip())).startswith("220")
            dialogue.writer.write(b"EHLO client.example.org\r\nMAIL FROM:<a@b>\r\n")

            rest = await dialogue.ended()

            assert b"250" not in rest
            await until(lambda: not smtp.listener.connections)


def client_hello(context: ssl.SSLContext) -> bytes:
    """The first bytes of a handshake."""
    outgoing = ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="127.0.0.1").do_handshake()
    return outgoing.read()


async def test_a_client_that_sends_much_with_the_end_of_its_handshake_is_served(
    client: Redis, tmp_path: Path, certificates: Certificates
) -> None:
    async with open_smtp_listener(client, tmp_path / "m", certificates=certificates, tls=TlsMode.MAY) as smtp:
        dialogue = await plain(smtp)
        assert (await dialogue.say("STARTTLS")).startswith("220 2.0.0")
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = smtp.client_context().wrap_bio(incoming, outgoing, server_hostname=smtp.host)
        while True:
            with suppress(ssl.SSLWantReadError):
                tls.do_handshake()
                break
            dialogue.writer.write(outgoing.read())
            incoming.write(await dialogue.reader.read(1 << 16))
        many = 15_000
        tls.write(b"NOOP " + b"x" * (6 * many) + b"\r\n" + b"NOOP\r\n" * many + b"QUIT\r\n")
        dialogue.writer.write(outgoing.read())
        replies = b""
        async with asyncio.timeout(20):
            while data := await dialogue.reader.read(1 << 16):
                incoming.write(data)
                with suppress(ssl.SSLWantReadError):
                    while part := tls.read(1 << 16):
                        replies += part
        assert replies.count(b"\r\n") == many + 2


@pytest.mark.parametrize(
    "make_runner", [asyncio.Runner, lambda: asyncio.Runner(loop_factory=uvloop.new_event_loop)]
)
def test_a_client_that_leaves_in_the_handshake_leaves_its_place(
    tmp_path: Path,
    certificates: Certificates,
    caplog: pytest.LogCaptureFixture,
    make_runner: Callable[[], asyncio.Runner],
) -> None:
    async def leave_and_come_again(mode: TlsMode, is_aborted: bool, begins: bool) -> None:
        runtime = make_runtime(memory_filter(MemoryModel()), tls_contexts={"smtp": server_context(certificates)})
        listener = SmtpListener(
            SmtpListenerSettings.model_construct(tls=mode),
            MessageService(
                "smtp", runtime, DaemonMetrics.create(PYTHON).delivery, ListenerLimits(max_connections=1)
            ),
            MaildirNextHop(tmp_path / "m"),
            Quarantine(tmp_path / "q"),
            "listener.example.org",
        )
        listening = open_listening_socket(TcpAddress("127.0.0.1", 0))
        address = listening.getsockname()
        await listener.start(listening)
        with socket.create_connection(address) as leaving:
            leaving.setblocking(False)
            stream, writer = await asyncio.open_connection(sock=leaving)
            if mode is TlsMode.MAY:
                assert (await stream.readline()).startswith(b"220 ")
                writer.write(b"STARTTLS\r\n")
                assert (await stream.readline()).startswith(b"220 2.0.0")
            await until(lambda: bool(listener.connections))
            if begins:
                writer.write(client_hello(ssl.create_default_context()))
            if is_aborted:
                leaving.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.close()
        await until(lambda: not listener.connections)
        await listener.drain(0)

    with make_runner() as runner:
        for mode in (TlsMode.MAY, TlsMode.IMPLICIT):
            for is_aborted, begins in ((False, False), (True, False), (False, True), (True, True)):
                runner.run(leave_and_come_again(mode, is_aborted, begins))
    assert "a command failed" not in caplog.text


@pytest.mark.parametrize("sent", [b"", b"\x16\x03\x01\x02\x00\x01"])
async def test_a_handshake_has_a_deadline(
    client: Redis, tmp_path: Path, certificates: Certificates, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr("nbstream.listeners.smtp.connection._HANDSHAKE_SECONDS", 2.0)
    async with open_smtp_listener(
        client, tmp_path / "m", certificates=certificates, tls=TlsMode.IMPLICIT, max_connections=1
    ) as smtp:
        dialogue = await smtp.talk()
        dialogue.writer.write(sent)
        await until(lambda: bool(smtp.listener.connections))
        turned_away = await smtp.talk()

        assert await turned_away.ended() == b""  # a handshake is a connection; without TLS there are no words
        await dialogue.ended()
        await until(lambda: not smtp.listener.connections)


async def test_a_reload_shows_the_new_certificate_to_the_next_client(
    client: Redis, tmp_path: Path, certificates: Certificates, program: Callable[[str], str]
) -> None:
    (tmp_path / "new").mkdir()
    new = Certificates.make(program("openssl"), tmp_path / "new")
    async with open_smtp_listener(client, tmp_path / "m", way=Way.SMTP_TLS, certificates=certificates) as smtp:
        old = await smtp.talk()
        await old.hello()

        smtp.listener.apply(make_runtime(smtp.spam_filter, tls_contexts={"smtp": server_context(new)}))

        with pytest.raises(ssl.SSLCertVerificationError):
            await smtp.talk()
        smtp.authority = new.authority
        assert (await smtp.send(MESSAGE)).startswith("250 ")
        assert (await old.say("NOOP")).startswith("250")
