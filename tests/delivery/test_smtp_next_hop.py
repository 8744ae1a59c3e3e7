"""What is sent to a next hop over SMTP, and what becomes of its replies; see also test_smtp_connections.py."""

from __future__ import annotations

import pytest

from nbstream.delivery.next_hop import DataReplies, SmtpPath, SmtpReply
from nbstream.delivery.smtp_next_hop import dot_stuffed_pieces
from nbstream.errors import RelayRefused, RelayUnavailable
from tests.harness.scripted import Play, Relay

ALICE, BOB, CAROL = SmtpPath("alice@a.test"), SmtpPath("bob@b.test"), SmtpPath("carol@c.test")
CONTENT = b"Subject: x\r\n\r\nhello\r\n"


async def test_every_reply_of_the_next_hop_is_passed_on(play: Play, relay_to: Relay) -> None:
    server = await play("""
        C: MAIL FROM:<alice@a.test>
        S: 250 2.1.0 Ok
        C: RCPT TO:<bob@b.test>
        S: 251 2.1.5 Will forward
        C: RCPT TO:<carol@c.test>
        S: 550-5.1.1 No such user
        S: 550 5.1.1 here
        C: RCPT TO:<alice@a.test>
        S: 452 4.2.2 Over quota
        C: DATA
        S: 354 Go
        C: Subject: x
        C:\x20
        C: hello
        C: .
        S: 250-2.0.0 Queued
        S: 250 2.0.0 as 4F1
    """)
    transaction = await relay_to(server).begin(ALICE)

    assert await transaction.rcpt(BOB) == SmtpReply(251, "2.1.5 Will forward")
    assert await transaction.rcpt(CAROL) == SmtpReply(550, "5.1.1 No such user\n5.1.1 here")
    assert await transaction.rcpt(ALICE) == SmtpReply(452, "4.2.2 Over quota")
    assert await transaction.data(CONTENT) == DataReplies((SmtpReply(250, "2.0.0 Queued\n2.0.0 as 4F1"),))
    await server.played()


@pytest.mark.parametrize(
    "path",
    [
        SmtpPath("", ("SIZE=123", "BODY=8BITMIME")),
        SmtpPath("Alice@A.Test", ("RET=hdrs", "ENVID=QQ314159", "AUTH=<>")),
        SmtpPath("gr\u00fc\u00dfe@ex\u00e4mple.test", ("SMTPUTF8",)),
        SmtpPath(b"latin\xfc@a.test".decode("utf-8", "surrogateescape")),
        SmtpPath('"a b> c\\"(d)"@a.test'),
        SmtpPath("@relay.test,@other.test:alice@a.test"),
        SmtpPath("alice@[IPv6:2001:db8::1]", ("ORCPT=rfc822;Al+2Bice@A.test", "X-odd")),
    ],
    ids=lambda path: ascii(path.address) or "null sender",
)
async def test_a_path_is_passed_on_as_the_client_sent_it(path: SmtpPath, play: Play, relay_to: Relay) -> None:
    said = " ".join((f"<{path.address}>", *path.parameters))
    server = await play(f"""
        C: MAIL FROM:{said}
        S: 250 2.1.0 Ok
        C: RCPT TO:{said}
        S: 250 2.1.5 Ok
    """)

    transaction = await relay_to(server).begin(path)
    reply = await transaction.rcpt(path)

    assert reply.accepted
    await server.played()


async def test_a_control_character_never_reaches_a_command_line(play: Play, relay_to: Relay) -> None:
    server = await play("""
        C: MAIL FROM:<alice@a.test>
        S: 250 2.1.0 Ok
        C: RSET
        S: 250 2.0.0 Ok
    """)
    relay = relay_to(server)

    with pytest.raises(RelayRefused) as refused:
        await relay.begin(SmtpPath("a\r\nRCPT TO:<x@x.test>"))
    transaction = await relay.begin(ALICE)
    reply = await transaction.rcpt(SmtpPath("bob@b.test", ("NOTIFY=\0",)))
    await transaction.abort()

    assert (refused.value.code, reply.code) == (501, 501)
    await server.played()


async def test_a_refused_data_command_is_answered_with_the_reply_of_the_next_hop(
    play: Play, relay_to: Relay
) -> None:
    server = await play("""
        C: MAIL FROM:<alice@a.test>
        S: 250 2.1.0 Ok
        C: RCPT TO:<bob@b.test>
        S: 250 2.1.5 Ok
        C: DATA
        S: 554 5.5.1 No valid recipients
        C: RSET
        S: 250 2.0.0 Ok
        C: MAIL FROM:<bob@b.test>
        S: 250 2.1.0 Ok
    """)
    relay = relay_to(server)
    transaction = await relay.begin(ALICE)
    await transaction.rcpt(BOB)

    assert await transaction.data(CONTENT) == DataReplies((SmtpReply(554, "5.5.1 No valid recipients"),))
    await relay.begin(BOB)  # on the same connection
    await server.played()


@pytest.mark.parametrize("answer", ["250 2.0.0 Queued", "220 ?", "hello"])
async def test_only_a_354_asks_for_the_message(answer: str, play: Play, relay_to: Relay) -> None:
    server = await play(f"""
        C: MAIL FROM:<alice@a.test>
        S: 250 2.1.0 Ok
        C: RCPT TO:<bob@b.test>
        S: 250 2.1.5 Ok
        C: DATA
        S: {answer}
        C: gone
    """)
    transaction = await relay_to(server).begin(ALICE)
    await transaction.rcpt(BOB)

    with pytest.raises(RelayUnavailable):
        await transaction.data(CONTENT)
    await server.played()


async def test_a_refusal_before_the_end_of_the_message_counts(play: Play, relay_to: Relay) -> None:
    server = await play("""
        C: MAIL FROM:<alice@a.test>
        S: 250 2.1.0 Ok
        C: DATA
        S: 354 Go
        C: some
        S: 552 5.3.4 Too big
        C: gone
    """)
    transaction = await relay_to(server).begin(ALICE)

    assert await transaction.data(b"x" * 30_000_000) == DataReplies((SmtpReply(552, "5.3.4 Too big"),))
    await server.played()


def stuffed(message: bytes) -> bytes:
    """The message as DATA carries it, the simple way (RFC 5321 4.5.2)."""
    whole = message if not message or message.endswith(b"\r\n") else message + b"\r\n"
    return (b"\r\n" + whole).replace(b"\r\n.", b"\r\n..")[2:] + b".\r\n"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b".",
        b"..\r\n.\r\n",
        b"no end",
        b".a\r\n" * 200_000,
        b"a.\r\n" * 200_000 + b".",
        b"x" * 600_000 + b"\r\n.",
    ],
    ids=range(7),
)
@pytest.mark.parametrize("fields", [b"", b"X-Nbstream: spam\r\n"], ids=["plain", "with fields"])
async def test_fields_and_content_are_dot_stuffed_however_large(content: bytes, fields: bytes) -> None:
    pieces = await dot_stuffed_pieces(content, fields)

    assert b"".join(pieces) == stuffed(fields + content)
