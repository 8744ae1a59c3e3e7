"""``nbstream status``: one ``Status`` is collected, and its text and its JSON say the same."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

from nbstream.cli.commands.status import collect_status, describe_status, status_to_json
from nbstream.daemon.config import load_settings
from nbstream.daemon.status import DaemonStatus, WorkerStatus
from nbstream.server.api_json import iso_time
from nbstream.store.model.model import Model
from nbstream.store.recent.checked_messages import CheckedMessage, RecentMessages
from nbstream.store.settings import MemorySettings
from nbstream.tokens.tokens import Tokens
from tests.cli.taught import Taught

PRIZE = b"Subject: prize\n\nClaim your free prize now\n"


def test_what_is_collected_is_what_is_printed_as_json(taught: Taught) -> None:
    taught.teach(PRIZE, "spam")

    status = asyncio.run(collect_status(load_settings(taught.config)))

    assert status.model.state.learned == {"ham": 0, "spam": 1}
    assert status.daemon == DaemonStatus(None)
    assert taught.json("status") == [json.loads(json.dumps(status_to_json(status)))]


def test_how_much_of_the_last_mail_is_unlike_learned_spam_is_said(taught: Taught) -> None:
    async def remember(model: Model) -> None:
        memory = RecentMessages(model.client, model.keys, MemorySettings(), lambda count: None)
        writing = asyncio.create_task(memory.run())
        for number in range(8):
            tokens = Tokens((), (b"body:%d" % number,))
            memory.remember(CheckedMessage(f"m{number}", tokens, 0.9, "unsure", is_discounted=number < 2))
        await memory.wait_until_written()
        writing.cancel()

    taught.model(remember)

    status = asyncio.run(collect_status(load_settings(taught.config)))

    assert (status.model.recent.checked, status.model.recent.unlike) == (8, 2)
    assert set(status.model.recent.unlike_ids) == {"m0", "m1"}
    (line,) = [line for line in describe_status(status) if line.startswith("new")]
    assert "2 of the last 8 messages (25 %)" in line


def test_the_state_of_each_worker_is_said(taught: Taught) -> None:
    status = asyncio.run(collect_status(load_settings(taught.config)))
    workers = [WorkerStatus(2, "ready", 0), WorkerStatus(3, "starting", 60), WorkerStatus(4, "silent", 0)]

    (line,) = [
        line
        for line in describe_status(replace(status, daemon=DaemonStatus(1, tuple(workers))))
        if line.startswith("daemon")
    ]

    states = f"2 (ready since {iso_time(0)}), 3 (starting since {iso_time(60)}), 4 (silent)"
    assert line == f"daemon   running, process 1, workers {states}"
