"""``nbstream status``: its text and its JSON say the same."""

from __future__ import annotations

import asyncio

from nbstream.cli.commands.status import describe_daemon
from nbstream.store.model.model import Model
from nbstream.store.recent.checked_messages import CheckedMessage, RecentMessages
from nbstream.store.settings import MemorySettings
from nbstream.tokens.tokens import Tokens
from tests.cli.taught import Taught

PRIZE = b"Subject: prize\n\nClaim your free prize now\n"


def test_how_much_of_the_last_mail_is_unlike_learned_spam_is_said(taught: Taught) -> None:
    async def remember(model: Model) -> None:
        memory = RecentMessages(model.client, model.keys, MemorySettings(), lambda count: None)
        writing = asyncio.create_task(memory.run())
        for number in range(8):
            tokens = Tokens((), (b"body:%d" % number,))
            memory.remember(CheckedMessage(f"m{number}", tokens, 0.9, "unsure", is_discounted=number < 2))
        await memory.wait_until_written()
        writing.cancel()

    taught.teach(PRIZE, "spam")
    taught.model(remember)

    (members,) = taught.json("status")

    assert (members["learned"], members["daemon_pid"]) == ({"ham": 0, "spam": 1}, None)
    assert (members["recent"]["checked"], members["recent"]["unlike_learned_spam"]) == (8, 2)
    assert set(members["recent"]["unlike_ids"]) == {"m0", "m1"}
    assert "\nnew      2 of the last 8 messages (25 %)" in taught("status")[0]


def test_the_state_of_each_worker_is_said() -> None:
    states = ((2, "ready", "12:00"), (3, "starting", "12:01"))
    workers = [{"pid": pid, "state": state, "since": since} for pid, state, since in states]

    assert describe_daemon({"daemon_pid": 1, "workers": workers}) == (
        "running, process 1, workers 2 (ready since 12:00), 3 (starting since 12:01)"
    )
