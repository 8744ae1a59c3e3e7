"""Which mail is noted as mail of a user of ours: by whom it is brought, and what it is called."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from redis.asyncio import Redis

from nbstream.mail.message import Message
from nbstream.policy.thresholds import ThresholdPolicy
from nbstream.server.connections import Teachers
from tests.harness.http_listener import LUNCH, PRIZE, open_http
from tests.harness.milter_listener import HAM, SPAM, open_milter

BOB = "bob@partner.example"


class Noted(list[tuple[str, Sequence[str]]]):
    """The users of noted messages, and the recipients."""

    def note(self, _: Message, user: str, recipients: Sequence[str]) -> None:
        self.append((user, list(recipients)))


async def test_the_milter_notes_mail_of_who_has_logged_in(client: Redis) -> None:
    noted = Noted()
    async with open_milter(client, runtime={"note_sent": noted.note}) as milter:
        await milter.teach()
        server = await milter.server()
        await server.deliver(HAM, BOB, user="ann@example.org")
        await server.deliver(HAM, BOB)

    assert noted == [("ann@example.org", [BOB])]


async def test_what_is_called_spam_is_not_noted(client: Redis) -> None:
    """A stolen account must not make its victims known."""
    noted = Noted()
    policy = ThresholdPolicy(unsure=0.5, spam=0.51)
    async with open_milter(client, runtime={"note_sent": noted.note}, policy=policy) as milter:
        await milter.teach()
        await (await milter.server()).deliver(SPAM, BOB, user="ann@example.org")

    assert noted == []


async def test_a_mail_server_that_may_not_teach_notes_nothing(client: Redis) -> None:
    noted = Noted()
    async with open_milter(
        client, runtime={"note_sent": noted.note, "teachers": {"milter": Teachers()}}
    ) as milter:
        await (await milter.server()).deliver(HAM, BOB, user="ann@example.org")

    assert noted == []


@pytest.mark.parametrize(
    ("fields", "is_noted"),
    [
        ({"User": "ann@example.org"}, True),
        ({}, False),
        ({"User": "ann", "X_Forwarded_For": "198.51.100.1"}, False),
    ],
)
async def test_the_api_of_rspamd_notes_mail_of_a_user_whom_a_teacher_names(
    client: Redis, tmp_path: Path, fields: dict[str, str], is_noted: bool
) -> None:
    noted = Noted()

    def open_to_all(values: dict[str, object]) -> None:
        values["listeners"] = {"http": {"listen": "127.0.0.1:0", "allow_from": ["127.0.0.1", "198.51.100.0/24"]}}

    async with open_http(client, tmp_path, change=open_to_all) as http:
        for label, message in (("spam", PRIZE), ("ham", LUNCH)):
            await http.ask(f"/v1/learn?label={label}", message)
        service = http.listener._message_service
        assert service
        http.listener.apply(replace(service.runtime, note_sent=noted.note))
        answer = await http.ask("/checkv2", LUNCH, Rcpt=BOB, **fields)

    assert answer.status == 200
    assert noted == ([("ann@example.org", [BOB])] if is_noted else [])
