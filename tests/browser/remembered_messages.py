"""Checked messages, made up and written as a daemon does it, but without being checked."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

from nbstream.daemon import config
from nbstream.daemon.assembly.parts import Parts
from nbstream.daemon.assembly.store import open_running_redis
from nbstream.policy.envelope import RememberedEnvelope
from nbstream.store.recent.checked_messages import CheckedMessage
from nbstream.tokens.tokens import Tokens

_WORDS = "agenda budget cash claim friday holiday lunch meeting offer pills prize project report"
_ID_LETTERS = "abcdefghijklmnopqrstuvwxyz234567"
_ID_DIGITS = str.maketrans("0189", "vwxy")  # an id has a-z and 2-7
_AT_ONCE = 192  # three full batches; more messages that wait to be written would be dropped


Remembered: TypeAlias = tuple[CheckedMessage, RememberedEnvelope]


def made_up_messages(count: int, seed: int = 1) -> Iterator[Remembered]:
    """Yield messages with their envelopes, as different as an administrator sees them."""
    draw = random.Random(seed)
    for number in range(count):
        probability = draw.betavariate(0.3, 0.4)
        verdict = "spam" if probability > 0.95 else "unsure" if probability > 0.5 else "ham"
        words = draw.sample(_WORDS.split(), 4)
        key = f"{_ID_LETTERS[number % len(_ID_LETTERS)]}{number:023d}".translate(_ID_DIGITS)
        tokens = Tokens([f"subject:{word}".encode() for word in words], [b"body:the"])
        envelope = RememberedEnvelope(
            "smtp",
            f"{draw.choice(words)}@{draw.choice(['offers.example.com', 'work.example.org'])}",
            (f"{draw.choice(['ann', 'ben', 'eve'])}@example.net",),
            1,
            " ".join(words).capitalize(),
            "quarantine" if verdict == "spam" else "",
        )
        yield CheckedMessage(key, tokens, probability, verdict), envelope


async def remember(config_file: Path, messages: Sequence[Remembered]) -> None:
    """Write checked messages into the Redis of a running daemon."""
    settings = config.load_settings(config_file)
    async with open_running_redis(settings) as clients:
        parts = Parts(settings, clients)
        await parts.model.open()
        recent = parts.recent_messages
        writing = asyncio.create_task(recent.run())
        for number, (message, envelope) in enumerate(messages, 1):
            recent.remember(message, None, lambda envelope=envelope: envelope)  # type: ignore[misc]
            if number % _AT_ONCE == 0:
                await recent.wait_until_written()
        await recent.wait_until_written()
        writing.cancel()
        await asyncio.wait([writing])
