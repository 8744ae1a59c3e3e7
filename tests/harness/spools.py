"""Messages for tests of the spool, and what writes and reads them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path

from nbstream.listeners.dovecot.spool import Spool, SpooledFeedback
from nbstream.store.state_file import StateFile

MAX_BYTES = 1 << 20


def message(number: int, content: bytes = b"Subject: x\r\n\r\nprize\r\n") -> SpooledFeedback:
    return SpooledFeedback("spam", f"user ann{number}", 1_700_000_000 + number, content)


@asynccontextmanager
async def open_spool(state_dir: Path, max_bytes: int = MAX_BYTES) -> AsyncIterator[Spool]:
    """The spool of one process, which ends at the end."""
    with closing(StateFile(state_dir)) as state:
        yield Spool(state, max_bytes)


async def add_all(state_dir: Path, messages: Sequence[SpooledFeedback]) -> None:
    """Another process adds messages, one after the other."""
    async with open_spool(state_dir) as spool:
        for each in messages:
            await spool.add(each)


async def read_all(spool: Spool) -> list[SpooledFeedback]:
    messages, learned = [], None
    while learned := await spool.take(learned):
        messages.append(learned.message)
    return messages
