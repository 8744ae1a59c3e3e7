"""No listener decodes, rewrites or tokenizes a large message on the event loop, whatever its charset is."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from nbstream.mail.message import Message
from nbstream.mail.mime import MessageLimits
from nbstream.tokens.tokenizer import Tokenizer
from nbstream.tokens.tokens import TokenizedMessage
from tests.harness.http_listener import open_http
from tests.harness.runtimes import SPAM_ADDRESS
from tests.harness.smtp_listener import open_smtp_listener
from tests.harness.waiting import DEADLINE_SECONDS, until
from tests.listeners.loop_work import HOSTILE, LARGEST, MAX_ON_LOOP, counted_loop_work, hostile_mail, hostile_text

# What one function that decodes leaves to another is counted twice, and feedback by mail is read twice.
MAX_DECODED = 5 * MessageLimits().look_bytes

charsets = pytest.mark.parametrize("charset", HOSTILE)
some_charsets = pytest.mark.parametrize("charset", ["windows-1253", "utf-8"])


def largest_allowed(values: dict[str, Any]) -> None:
    values.setdefault("limits", {})["max_message_bytes"] = LARGEST


@charsets
async def test_a_text_by_http(
    client: Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, charset: str
) -> None:
    async with open_http(client, tmp_path, change=largest_allowed) as http:
        for path in ("/v1/check", "/v1/learn?label=spam"):
            with counted_loop_work(monkeypatch) as work:
                answer = await http.ask(path, hostile_text(charset), Content_Type=f"text/plain; charset={charset}")

            assert answer.status == 200
            assert work.largest <= MAX_ON_LOOP, work.on_loop
            assert 0 < work.decoded <= MAX_DECODED


@some_charsets
async def test_a_message_by_smtp(
    client: Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, charset: str
) -> None:
    async with open_smtp_listener(client, tmp_path / "Maildir", max_message_bytes=LARGEST) as smtp:
        for recipient in ("to@example.org", SPAM_ADDRESS):
            with counted_loop_work(monkeypatch) as work:
                reply = await smtp.send(hostile_mail(charset), recipient)

            assert reply.startswith("250"), reply
            assert work.largest <= MAX_ON_LOOP, work.on_loop
            assert 0 < work.decoded <= MAX_DECODED


async def test_one_large_message_is_tokenized_at_a_time(
    client: Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[str] = []
    go_on = threading.Event()
    make_tokens = Tokenizer.tokenize

    def tokenize(tokenizer: Tokenizer, message: Message) -> TokenizedMessage:
        begun.append(message.key)
        assert go_on.wait(DEADLINE_SECONDS)
        return make_tokens(tokenizer, message)

    monkeypatch.setattr(Tokenizer, "tokenize", tokenize)
    async with open_http(client, tmp_path, change=largest_allowed) as http, asyncio.TaskGroup() as group:
        checks = [
            group.create_task(http.spam_filter.check(Message.parse(hostile_mail(charset)))) for charset in HOSTILE
        ]
        await until(lambda: begun != [])
        for _ in checks:
            await asyncio.to_thread(len, begun)  # a second message could begin by now

        assert len(begun) == 1
        go_on.set()
    assert len(begun) == len(checks)
