"""What replies say: nobody but a program that may teach, and asks, learns what the filter thinks of a message."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from nbstream.mail.message import Message
from nbstream.policy.settings import ActionsSettings
from nbstream.policy.verdict import Action
from tests.harness.smtp_listener import RunningSmtp, open_smtp_listener

PRIZE = b"Message-ID: <1@x>\r\nFrom: win@example.com\r\nSubject: prize\r\n\r\nClaim your free prize now\r\n"
LUNCH = b"Message-ID: <2@x>\r\nFrom: ann@example.org\r\nSubject: lunch\r\n\r\nShall we have lunch on Friday?\r\n"
NEXT_HOP_REPLY = "250 2.0.0 Delivered to the Maildir"
VERDICT = re.compile(r" nbstream id=\S+ verdict=\S+ probability=\S+\Z")


@asynccontextmanager
async def taught(client: Redis, tmp_path: Path, spam: str = "pass", **options: Any) -> AsyncIterator[RunningSmtp]:
    """A listener that knows ``PRIZE`` as spam, and has this action for spam."""
    actions = ActionsSettings(spam=Action.parse(spam))
    async with open_smtp_listener(client, tmp_path / "m", actions=actions, **options) as smtp:
        for number in range(40):
            for label, raw in (("spam", PRIZE), ("ham", LUNCH)):
                message = Message.parse(raw.replace(b"@x>", b"%d@x>" % number))
                await smtp.spam_filter.learn(message, label, "test")
        yield smtp


async def converse(smtp: RunningSmtp, *lines: str, content: bytes = PRIZE) -> str:
    """Say these lines and send the message; the last reply."""
    talk = await smtp.talk()
    await talk.hello()
    for line in (*lines, "RCPT TO:<to@example.org>", "DATA"):
        assert (await talk.say(line))[0] in "23"
    talk.writer.write(content + b".\r\n")
    return await talk.reply()


MAIL, ASKING = "MAIL FROM:<a@b>", "MAIL FROM:<a@b> SIZE=1000 xverdict"


SAID = [
    ([MAIL], False),
    ([ASKING], True),
    (["XFORWARD ADDR=192.0.2.7", ASKING], False),
    (["XFORWARD ADDR=127.0.0.1", ASKING], False),
    (["XFORWARD SOURCE=LOCAL", ASKING], False),
    (["XFORWARD ADDR=127.0.0.1", MAIL, "RSET", ASKING], False),
]


@pytest.mark.parametrize("action", ["pass", "reject"])
async def test_only_who_asks_and_has_never_spoken_for_others_gets_the_verdict(
    client: Redis, tmp_path: Path, action: str
) -> None:
    async with taught(client, tmp_path / action, action) as smtp:
        for lines, sees_verdict in SAID:
            reply = await converse(smtp, *lines)

            assert bool(VERDICT.search(reply)) == sees_verdict
            own = VERDICT.sub("", reply)
            if action == "pass":
                assert own == NEXT_HOP_REPLY
            else:
                assert re.fullmatch(r"550 5\.7\.1 Message refused as spam, id=[0-9a-z]+", own)


async def test_quarantined_mail_gets_the_same_reply_as_all_other(client: Redis, tmp_path: Path) -> None:
    async with taught(client, tmp_path, "quarantine") as smtp:
        replies = {await converse(smtp, MAIL, content=content) for content in (PRIZE, LUNCH)}

        assert replies == {"250 2.0.0 Accepted"}
        assert len(smtp.delivered()) == 1
