"""The answers of the spamd listener, over real sockets, from a real model."""

from __future__ import annotations

import asyncio
import logging
import re
import threading
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from nbstream.filter import Check, CheckSeconds
from nbstream.mail import header_edits
from nbstream.mail.message import Message
from nbstream.store.connection import ConnectionOptions, open_client
from tests.harness.delivered import DELIVERED, assert_learned_as_it_was_checked
from tests.harness.disputes import DISPUTED, teach_dispute
from tests.harness.redis.redis_server import RedisServer
from tests.harness.spamd_listener import HAM, SPAM, RunningSpamdListener, open_spamd, request, tell
from tests.harness.waiting import DEADLINE_SECONDS

OK = "SPAMD/1.1 0 EX_OK\r\n"


@pytest.fixture
async def spamd(client: Redis) -> AsyncIterator[RunningSpamdListener]:
    """A listener whose model has learned one message of each class; its threshold of spam is 0.5."""
    async with open_spamd(client, spam=0.5) as running:
        await running.teach(("spam", SPAM), ("ham", HAM))
        yield running
        await running.wait_until_idle()


def lf(message: bytes) -> bytes:
    return message.replace(b"\r\n", b"\n")


def reply(answer: bytes) -> tuple[list[str], bytes]:
    head, _, body = answer.partition(b"\r\n\r\n")
    return head.decode("ascii").split("\r\n"), body


# Answers


async def test_a_delivered_message_is_learned_as_it_was_checked(
    spamd: RunningSpamdListener, client: Redis
) -> None:
    await spamd.ask(tell("spam", DELIVERED))
    await assert_learned_as_it_was_checked(client)


async def test_check_says_the_verdict_and_the_score(spamd: RunningSpamdListener) -> None:
    spam, ham = [(await spamd.ask(request("CHECK", message=message))).decode() for message in (SPAM, HAM)]

    assert re.fullmatch(rf"{OK}Spam: True ; [0-9]\.[0-9] / 0\.0\r\n\r\n", spam)
    assert re.fullmatch(rf"{OK}Spam: False ; -[0-9]\.[0-9] / 0\.0\r\n\r\n", ham)
    assert spamd.metric("nbstream_messages_total", listener="spamd", verdict="spam") == 1
    assert spamd.metric("nbstream_messages_total", listener="spamd", verdict="ham") == 1


async def test_a_report_has_the_reason_and_the_clues(spamd: RunningSpamdListener) -> None:
    head, body = reply(await spamd.ask(request("REPORT")))

    assert head[1] == f"Content-length: {len(body)}"
    lines = body.decode("ascii").split("\n")
    assert re.fullmatch(r"nbstream: spam, P\(spam\) 0\.[0-9]{6}", lines[0])
    assert lines[1] == "probability >= 0.5 (spam)"
    assert re.fullmatch(r"model test, id [a-z2-7]{24}", lines[2])
    assert lines[3] == ""
    assert re.fullmatch(r"\S+ \+[0-9.]+,", lines[4])
    assert lines[-1] == ""


@pytest.mark.parametrize("message", [SPAM, lf(SPAM), SPAM + b"\0\xff\rlone\nends", lf(SPAM).rstrip(b"\n")])
async def test_a_processed_message_has_the_verdict_on_top_and_is_otherwise_unchanged(
    spamd: RunningSpamdListener, message: bytes
) -> None:
    _, whole = reply(await spamd.ask(request("PROCESS", message=message)))
    _, head = reply(await spamd.ask(request("HEADERS", message=message)))

    end = b"\r\n" if message.startswith(SPAM[:60]) else b"\n"
    assert whole.endswith(message)
    top = whole[: -len(message)]
    assert [line.partition(b":")[0] for line in top.split(end) if line[:1] != b"\t"] == [
        *(b"X-Spam-Flag", b"X-Spam-Status", b"X-Spam-Level", b"X-Nbstream"),
        b"",
    ]
    assert top.count(b"\n") == top.count(end)
    assert head == whole[: whole.index(end * 2) + 2 * len(end)]


async def test_forged_verdicts_are_removed_before_the_check(
    spamd: RunningSpamdListener, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked_messages: list[bytes] = []
    score = spamd.opened_filter.spam_filter.score

    async def watched(message: Message) -> tuple[Check, CheckSeconds]:
        checked_messages.append(message.raw)
        return await score(message)

    monkeypatch.setattr(spamd.opened_filter.spam_filter, "score", watched)
    forged = b"X-Nbstream: ham; probability=0;\n\tid=x\nx-spam-flag : NO\n" + lf(SPAM)

    _, whole = reply(await spamd.ask(request("PROCESS", message=forged)))

    assert whole.endswith(b"\n" + lf(SPAM))
    assert whole.count(b"X-Nbstream:") == 1
    assert b"NO\n" not in whole
    assert checked_messages == [SPAM]


async def test_ping_and_skip(spamd: RunningSpamdListener) -> None:
    assert await spamd.ask(b"PING SPAMC/1.2\r\n") == b"SPAMD/1.5 0 PONG\r\n"
    assert await spamd.ask(b"PING SPAMC/1.2\r\n\r\n", end=True) == b"SPAMD/1.5 0 PONG\r\n"
    assert await spamd.ask(b"SKIP SPAMC/1.2\r\n\r\n", end=True) == b""


async def test_the_bytes_of_exim_get_an_answer_that_it_can_read(spamd: RunningSpamdListener) -> None:
    exim_request = b"REPORT SPAMC/1.2\r\nUser: nobody\r\nContent-length: %d\r\n\r\n" % len(SPAM)

    answer = await spamd.ask(exim_request, SPAM, end=True)

    assert re.match(rb"SPAMD/1\.1 0 EX_OK\r\nSpam: True ; [0-9.]+ / [0-9.]+\r\n\r\nnbstream: spam", answer)
    assert len(answer) < 32_600


# Feedback


async def test_tell_learns_relearns_and_forgets(spamd: RunningSpamdListener) -> None:
    changes = [
        reply(await spamd.ask(tell(label)))[0][1:-1] for label in ("spam", "ham", "ham", "forget", "forget")
    ]

    assert changes == [[], ["DidSet: local"], [], ["DidRemove: local"], []]
    assert spamd.learned == {"spam": 0, "ham": 1}
    for outcome, label in (("relearned", "ham"), ("already", "ham"), ("unlearned", "ham"), ("unknown", "none")):
        assert spamd.metric("nbstream_feedback_total", source="spamd", label=label, outcome=outcome) == 1


async def test_a_kind_is_learned_where_the_model_has_it(spamd: RunningSpamdListener) -> None:
    spam_filter = spamd.opened_filter.spam_filter
    policy = spam_filter.policy._replace(kinds=("ham", "newsletter"))
    spamd.listener.apply(replace(spamd.service.runtime, spam_filter=spam_filter.with_policy(policy)))

    learned, refused = [await spamd.ask(tell(label)) for label in ("newsletter", "receipt")]

    assert b"DidSet: local" in learned
    assert refused == b"SPAMD/1.0 76 Bad header line: (Message-class must be one of ham, newsletter, spam)\r\n"


async def test_tell_reinforces_for_a_person_and_not_for_a_retry(spamd: RunningSpamdListener) -> None:
    await teach_dispute(spamd.opened_filter.spam_filter)
    learned = spamd.learned

    changes = [reply(await spamd.ask(tell("ham", DISPUTED.raw)))[0][1:-1] for _ in range(2)]

    assert changes == [["DidSet: local"], []]
    assert spamd.learned == learned
    assert spamd.metric("nbstream_feedback_total", source="spamd", label="ham", outcome="reinforced") == 1


async def test_a_peer_that_may_not_teach_is_refused_and_logged(
    client: Redis, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_spamd(client, allow_from=()) as spamd:
        refused = await spamd.ask(tell("spam"))

        assert refused == b"SPAMD/1.0 69 Service Unavailable: feedback is not accepted from here\r\n"
        assert spamd.metric("nbstream_feedback_total", source="spamd", label="spam", outcome="refused") == 1
        assert (await spamd.ask(request("CHECK"))).startswith(OK.encode())
        (line,) = [line for line in caplog.records if "feedback refused" in line.message]
        assert vars(line)["fields"] == {"peer": "127.0.0.1"}
    async with open_spamd(client, tmp_path / "s.sock", allow_from=()) as unix:
        await unix.teach(("spam", SPAM))  # the permissions of the socket decide


@pytest.mark.parametrize(
    ("unix", "user", "actor"),
    [
        (False, "User: ann", "user ann"),
        (False, "X: x", "127.0.0.1"),
        (True, "User: b\x1b", "user b?"),
        (True, "X: x", ""),
    ],
)
async def test_the_log_says_who_taught(
    client: Redis, tmp_path: Path, caplog: pytest.LogCaptureFixture, unix: bool, user: str, actor: str
) -> None:
    caplog.set_level(logging.INFO)
    async with open_spamd(client, tmp_path / "s.sock" if unix else None) as spamd:
        await spamd.ask(tell("spam", SPAM, user))

    [record] = [record for record in caplog.records if record.message == "feedback"]
    fields = vars(record)["fields"]
    assert (fields["source"], fields["actor"], fields["outcome"]) == ("spamd", actor, "learned")


# Failures


async def test_without_redis_mail_is_checked_and_feedback_deferred(own_redis: RedisServer) -> None:
    client = open_client(ConnectionOptions(own_redis.url, timeout_seconds=1))
    async with open_spamd(client) as spamd:
        await spamd.teach(("spam", SPAM), ("ham", HAM))
        own_redis.stop()

        assert (await spamd.ask(request("CHECK"))).startswith(OK.encode())
        refused = await spamd.ask(tell("ham"))
        assert refused == b"SPAMD/1.0 75 Learning is not possible now, please try again later\r\n"
        assert spamd.metric("nbstream_feedback_total", source="spamd", label="ham", outcome="failed") == 1
        own_redis.start()
    await client.aclose()


# A reload


async def test_a_large_header_is_rewritten_while_others_are_served(
    spamd: RunningSpamdListener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """50 MB of forged fields take seconds."""
    rewrite_header, others_ran = header_edits.rewrite_header, threading.Event()
    loop = asyncio.get_running_loop()

    def rewrite_when_others_ran(*arguments: Any) -> bytes:
        loop.call_soon_threadsafe(others_ran.set)
        assert others_ran.wait(DEADLINE_SECONDS)
        return rewrite_header(*arguments)

    monkeypatch.setattr(header_edits, "rewrite_header", rewrite_when_others_ran)
    _, head = reply(await spamd.ask(request("HEADERS", message=b"X-Nbstream: ham\r\n" * 20_000 + SPAM)))

    assert head.count(b"X-Nbstream: ") == 1
