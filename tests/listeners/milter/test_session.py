"""One session of the milter listener, on the event loop of tests and on that of the daemon."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, cast

import pytest
import uvloop

from nbstream.listeners.milter.answers import MilterAnswers
from nbstream.listeners.milter.replies import ContinueReply, MilterReply
from nbstream.listeners.milter.session import MilterListenerState, MilterSession
from nbstream.server.connections import Connections
from nbstream.server.limits import BytesInFlight, ListenerLimits
from tests.harness import milter_frames as wire
from tests.harness.waiting import DEADLINE_SECONDS, until

MANY_TURNS = 100  # of the loop; in each of them progress is reported


class SlowAnswers:
    """Work on a message that goes on after the mail server has left."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.has_left: Callable[[], bool] = lambda: False
        self.finished = False

    async def answer(self, *arguments: Any) -> Sequence[MilterReply]:
        self.begun.set()
        await until(self.has_left)
        for _ in range(MANY_TURNS):
            await asyncio.sleep(0)
        self.finished = True
        return [ContinueReply()]


async def leave_while_a_message_is_worked_on() -> bool:
    """Whether the work was finished; the session ends without an exception."""
    answers = SlowAnswers()
    state = MilterListenerState(
        Connections("milter", 1),
        ListenerLimits(),
        BytesInFlight(1 << 20),
        cast("MilterAnswers", answers),
        progress_seconds=0,
    )
    sessions: list[asyncio.Task[None]] = []

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answers.has_left = writer.is_closing
        sessions.append(asyncio.get_running_loop().create_task(MilterSession(state, reader, writer).serve()))

    async with asyncio.timeout(DEADLINE_SECONDS), await asyncio.start_server(accept, "127.0.0.1", 0) as server:
        _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        message = [wire.mail(), wire.rcpt("<ann@example.org>"), wire.header(b"Subject", b" x"), wire.END]
        writer.write(b"".join([wire.negotiation(), wire.connect(), *message]))
        await answers.begun.wait()
        writer.transport.abort()
        await sessions[0]
    return answers.finished


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_work_is_finished_when_the_mail_server_has_left(run: Callable[[Coroutine[Any, Any, bool]], bool]) -> None:
    assert run(leave_while_a_message_is_worked_on())
