"""The settings of header fields."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from nbstream.daemon.assembly.policy import make_message_reader
from nbstream.daemon.config import Settings


def settings(**headers: Any) -> Settings:
    return Settings.model_validate({"headers": headers})


def refusal(**headers: Any) -> list[tuple[tuple[int | str, ...], str]]:
    with pytest.raises(ValidationError) as caught:
        settings(**headers)
    return [(error["loc"][1:], error["msg"]) for error in caught.value.errors()]


RECEIVED = b"Received: from stranger.example by mx.example.org\r\n"
FORGED = (
    b"X-Nbstream: ham; id=a\r\nAuthentication-Results: mx.example.org; dmarc=pass\r\n"
    b"Received: from bank.example by mx.example.org\r\n"
)
BODY = b"Subject: offer\r\n\r\nprize\r\n"


@pytest.mark.parametrize(
    ("listeners", "marks_mail"),
    [
        ({}, True),
        ({"smtp": None, "lmtp": {}}, True),
        ({"smtp": None, "milter": {}}, True),
        ({"smtp": None}, False),
        ({"smtp": None, "spamd": {}, "stream": {}}, False),
    ],
)
def test_the_field_of_a_sender_hides_nothing_from_a_lesson_where_no_listener_marks_mail(
    listeners: dict[str, Any], marks_mail: bool
) -> None:
    reader = make_message_reader(Settings.model_validate({"listeners": listeners}))
    raw = RECEIVED + FORGED + BODY

    assert (reader.read_taught(raw).raw == reader.read_incoming(raw).raw) is not marks_mail


@pytest.mark.parametrize(
    ("headers", "key"),
    [
        ({"fields": [{"name": "Subject", "value": "x"}]}, ("fields", 0, "name")),
        ({"fields": [{"name": "X-A", "value": "{subject}"}]}, ("fields", 0, "value")),
        ({"fields": [{"name": "X-A", "value": True}]}, ("fields", 0, "value")),
        ({"fields": [{"name": "X-A", "value": "x", "verdicts": []}]}, ("fields", 0, "verdicts")),
        ({"fields": [{"name": "x-nbstream-clues", "value": ""}]}, ("fields", 0, "name")),
        ({"own_field": "X-A", "fields": [{"name": "x-a", "value": ""}]}, ("fields", 0, "name")),
        ({"own_field": "DKIM-Signature"}, ("own_field",)),
        ({"own_field": "X-" + "a" * 39}, ("own_field",)),
        ({"subject_tag": "a\r\nb"}, ("subject_tag",)),
        ({"subject_tag": " "}, ("subject_tag",)),
        ({"subject_tag": ["SPAM"]}, ("subject_tag",)),
        ({"subject_tag": "ä"}, ("subject_tag",)),
        ({"subject_tag": "=?utf-8?q?x?="}, ("subject_tag",)),
    ],
)
def test_what_would_break_mail_is_refused_by_its_key(headers: dict[str, Any], key: tuple[int | str, ...]) -> None:
    problems = refusal(**headers)

    assert [loc for loc, _ in problems] == [key]
    assert "must" in problems[0][1] or "at least" in problems[0][1]
