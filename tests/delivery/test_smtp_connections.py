"""How connections are kept open, replaced when they are dead, and closed."""

from __future__ import annotations

import asyncio
import gc
import socket
import time

import pytest

from nbstream.delivery.next_hop import SmtpPath, SmtpReply
from nbstream.delivery.smtp_next_hop import USUAL_FEATURES, NextHopConnection, SmtpNextHop
from nbstream.errors import RelayUnavailable
from nbstream.server.smtp_replies import error_reply
from tests.harness.scripted import Play, Relay, relay_at
from tests.harness.scripted_server import DEADLINE_SECONDS
from tests.harness.waiting import until

ALICE, BOB, CAROL = SmtpPath("alice@a.test"), SmtpPath("bob@b.test"), SmtpPath("carol@c.test")
QUEUED = SmtpReply(250, "2.0.0 Queued")

ASK_MAIL = "C: MAIL FROM:<alice@a.test>\n"
ASK_BOB = "C: RCPT TO:<bob@b.test>\n"
ASK_CAROL = "C: RCPT TO:<carol@c.test>\n"
ASK_DATA = "C: DATA\n"
OK = "S: 250 2.0.0 Ok\n"
ENVELOPE = ASK_MAIL + OK + ASK_BOB + OK
MESSAGE = ENVELOPE + ASK_DATA + "S: 354 Go\nC: hello\nC: .\nS: 250 2.0.0 Queued\n"
RSET = "C: RSET\n" + OK
DROP, GONE, QUIT = "S: drop\n", "C: gone\n", "C: QUIT\n"


async def send(relay: SmtpNextHop, *recipients: SmtpPath) -> SmtpReply:
    transaction = await relay.begin(ALICE)
    for recipient in recipients or (BOB,):
        await transaction.rcpt(recipient)
    return (await transaction.data(b"hello\r\n")).single


async def test_messages_one_after_another_share_a_connection(play: Play, relay_to: Relay) -> None:
    server = await play(MESSAGE * 3)
    relay = relay_to(server)

    assert [await send(relay) for _ in range(3)] == [QUEUED] * 3
    await server.played()


async def test_transactions_at_the_same_time_have_a_connection_each(play: Play, relay_to: Relay) -> None:
    server = await play(ENVELOPE, ENVELOPE)
    relay = relay_to(server)

    first, second = await relay.begin(ALICE), await relay.begin(ALICE)
    await second.rcpt(BOB)
    await first.rcpt(BOB)

    await server.played()


async def test_an_aborted_transaction_gives_its_connection_back(play: Play, relay_to: Relay) -> None:
    server = await play(ASK_MAIL + OK + RSET + MESSAGE)
    relay = relay_to(server)

    transaction = await relay.begin(ALICE)
    await transaction.abort()

    assert await send(relay) == QUEUED
    await server.played()


@pytest.mark.parametrize("answer", [DROP, "S: 502 5.5.1 What?\n" + GONE, GONE], ids=["drop", "502", "silence"])
async def test_an_abort_that_fails_closes_the_connection(answer: str, play: Play, relay_to: Relay) -> None:
    server = await play(ASK_MAIL + OK + "C: RSET\n" + answer, MESSAGE)
    relay = relay_to(server, connect_seconds=2)

    transaction = await relay.begin(ALICE)
    await transaction.abort()

    assert await send(relay) == QUEUED
    await server.played()


DEATHS = {
    "while it waited": DROP,
    "at MAIL": ASK_MAIL + DROP,
    "at the first RCPT": ASK_MAIL + OK + ASK_BOB + DROP,
    "at the second RCPT": ENVELOPE + ASK_CAROL + DROP,
    "at DATA": ENVELOPE + ASK_CAROL + OK + ASK_DATA + DROP,
    "with a 421 while it waited": "S: 421 4.4.2 Idle\n" + DROP,
    "with a 421 at MAIL": ASK_MAIL + "S: 421 4.3.2 Shutting down\n" + GONE,
    "with a 421 at DATA": ENVELOPE + ASK_CAROL + OK + ASK_DATA + "S: 421 4.3.2 Shutting down\n" + GONE,
}


@pytest.mark.parametrize("death", DEATHS.values(), ids=DEATHS)
async def test_a_idle_connection_that_died_is_replaced(death: str, play: Play, relay_to: Relay) -> None:
    to_two = MESSAGE.replace(ASK_DATA, ASK_CAROL + OK + ASK_DATA)
    server = await play(MESSAGE + death, to_two)
    relay = relay_to(server)
    await send(relay)

    assert await send(relay, BOB, CAROL) == QUEUED
    await server.played()


@pytest.mark.parametrize("answer", ["S: 550 5.1.1 No more\n", "S: 451 4.3.0 Not now\n", DROP])
async def test_a_replacement_that_takes_a_recipient_back_ends_the_transaction(
    answer: str, play: Play, relay_to: Relay
) -> None:
    after = "" if answer == DROP else GONE
    server = await play(MESSAGE + ENVELOPE + ASK_DATA + DROP, ASK_MAIL + OK + ASK_BOB + answer + after, MESSAGE)
    relay = relay_to(server)
    await send(relay)

    with pytest.raises(RelayUnavailable):
        await send(relay)

    assert await send(relay) == QUEUED
    await server.played()


@pytest.mark.parametrize("command", [ASK_MAIL, ENVELOPE + ASK_DATA], ids=["MAIL", "DATA"])
async def test_a_fresh_connection_that_dies_is_not_replaced(command: str, play: Play, relay_to: Relay) -> None:
    server = await play(command + DROP)

    with pytest.raises(RelayUnavailable):
        await send(relay_to(server))
    await server.played()


@pytest.mark.parametrize("death", ["", "C: hello\n", "C: hello\nC: .\n"], ids=["354", "middle", "dot"])
async def test_nothing_is_sent_again_once_the_message_was(death: str, play: Play, relay_to: Relay) -> None:
    server = await play(MESSAGE + ENVELOPE + ASK_DATA + "S: 354 Go\n" + death + DROP)
    relay = relay_to(server)
    await send(relay)

    with pytest.raises(RelayUnavailable) as unavailable:
        await send(relay)

    assert error_reply(unavailable.value).code == 451
    await server.played()


async def test_a_421_to_the_message_is_passed_on_and_ends_the_connection(play: Play, relay_to: Relay) -> None:
    server = await play(MESSAGE.replace("250 2.0.0 Queued", "421 4.3.2 Shutting down") + GONE, MESSAGE)
    relay = relay_to(server)

    assert await send(relay) == SmtpReply(421, "4.3.2 Shutting down")
    assert await send(relay) == QUEUED
    await server.played()


SILENCES = {
    "MAIL": ASK_MAIL,
    "RCPT": ENVELOPE.removesuffix(OK),
    "the dot": MESSAGE.removesuffix("S: 250 2.0.0 Queued\n"),
}


@pytest.mark.parametrize("silence", SILENCES.values(), ids=SILENCES)
async def test_a_late_reply_closes_the_connection(silence: str, play: Play, relay_to: Relay) -> None:
    server = await play(MESSAGE + silence + GONE, MESSAGE)
    relay = relay_to(server, reply_timeout_seconds=2)
    await send(relay)

    with pytest.raises(RelayUnavailable):
        await send(relay)

    assert await send(relay) == QUEUED
    await server.played()


async def test_each_command_has_the_whole_time_for_its_reply(play: Play, relay_to: Relay) -> None:
    server = await play(ASK_MAIL + OK + ASK_BOB + "S: nothing\n" + OK)
    transaction = await relay_to(server, reply_timeout_seconds=4).begin(ALICE)
    since = time.monotonic()
    await until(lambda: time.monotonic() > since + 3)

    reply = asyncio.create_task(transaction.rcpt(BOB))
    await until(lambda: time.monotonic() > since + 5)  # too long for MAIL, had it not been answered
    server.go_on.set()

    assert (await reply).accepted
    await server.played()


def connections() -> int:
    """How many anything knows of, a timer too."""
    gc.collect()
    return sum(isinstance(thing, NextHopConnection) for thing in gc.get_objects())


@pytest.mark.parametrize("silence", SILENCES.values(), ids=SILENCES)
async def test_a_cancelled_command_closes_the_connection(silence: str, play: Play, relay_to: Relay) -> None:
    server = await play(silence + GONE, MESSAGE)
    relay = relay_to(server, max_connections=1)
    task = asyncio.create_task(send(relay))
    async with asyncio.timeout(DEADLINE_SECONDS):
        await server.silent.wait()

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert await send(relay) == QUEUED
    await server.played()


@pytest.mark.parametrize("is_cancelled", [True, False], ids=["cancelled", "late"])
async def test_a_message_given_up_never_reaches_its_final_dot(
    is_cancelled: bool, play: Play, relay_to: Relay
) -> None:
    server = await play(ASK_MAIL + OK + ASK_DATA + "S: 354 Go\nC: some\nS: nothing\n" + GONE)
    limits = {} if is_cancelled else {"reply_timeout_seconds": 0.5}
    transaction = await relay_to(server, **limits).begin(ALICE)
    before = asyncio.all_tasks()
    task = asyncio.create_task(transaction.data(b"x" * 30_000_000))
    async with asyncio.timeout(DEADLINE_SECONDS):
        await server.silent.wait()

    if is_cancelled:
        task.cancel()
    with pytest.raises(asyncio.CancelledError if is_cancelled else RelayUnavailable):
        await task
    server.go_on.set()

    await server.played()
    assert not server.last_words.endswith(b".\r\n")
    assert asyncio.all_tasks() <= before  # nobody writes any more


@pytest.mark.parametrize("line", ["hello?", "250 " + "x" * 40_000, "354 Go", "150 Wait"])
async def test_a_malformed_reply_closes_the_connection(line: str, play: Play, relay_to: Relay) -> None:
    server = await play(ASK_MAIL + f"S: {line}\n" + GONE)

    with pytest.raises(RelayUnavailable):
        await relay_to(server).begin(ALICE)
    await server.played()


async def test_a_second_reply_answers_no_later_command(play: Play, relay_to: Relay) -> None:
    server = await play(ASK_MAIL + OK + "S: 250 2.0.0 Ok, once more\n" + GONE)
    transaction = await relay_to(server).begin(ALICE)

    with pytest.raises(RelayUnavailable):
        await transaction.rcpt(BOB)
    await server.played()


async def test_connections_are_bounded_and_the_wait_for_one_too(play: Play, relay_to: Relay) -> None:
    server = await play(ENVELOPE + RSET + MESSAGE)
    relay = relay_to(server, max_connections=1, connect_seconds=2)
    transaction = await relay.begin(ALICE)
    await transaction.rcpt(BOB)

    with pytest.raises(RelayUnavailable):
        await relay.begin(ALICE)
    waiting = asyncio.create_task(send(relay))
    await transaction.abort()

    assert await waiting == QUEUED
    await server.played()


async def test_mail_flows_again_when_the_next_hop_is_back(play: Play, relay_to: Relay) -> None:
    server = await play(MESSAGE)
    relay = relay_to(server, max_connections=1)
    await server.stop()

    for _ in range(2):
        with pytest.raises(RelayUnavailable):
            await relay.begin(ALICE)
    await server.start()

    assert await send(relay) == QUEUED
    await server.played()


async def test_a_idle_connection_says_whether_the_next_hop_is_reachable(play: Play, relay_to: Relay) -> None:
    server = await play(MESSAGE + "C: NOOP\n" + OK + "C: NOOP\n" + DROP, "C: NOOP\n" + OK + "C: NOOP\n" + GONE)
    relay = relay_to(server, connect_seconds=2)
    await send(relay)

    assert [await relay.problem() for _ in range(3)] == [None, None, "cannot be reached"]
    await server.played()


@pytest.mark.parametrize("listening", [True, False], ids=["never greets", "refuses connections"])
async def test_a_next_hop_that_cannot_be_reached(listening: bool) -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        if listening:
            server.listen()
        port = server.getsockname()[1]
        relay = SmtpNextHop(relay_at(port))
        relay.connect_seconds = 0.2

        assert await relay.problem() == "cannot be reached"
        assert await relay.features() == USUAL_FEATURES
        with pytest.raises(RelayUnavailable):
            await relay.begin(ALICE)
