"""Own models on a stream whose messages have users: each user teaches his own, and nobody else's."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace

import pytest

from nbstream.assembly.filter import make_filter
from nbstream.assembly.policy import make_message_reader
from nbstream.config import make_settings
from nbstream.errors import InputError
from nbstream.evaluation.own_models import OwnModelsReport, UserRow, evaluate_own_models
from nbstream.evaluation.run import CachingTokenizer
from nbstream.evaluation.streams import LabelledContent
from nbstream.filter import Filter
from nbstream.store.model.memory_model import MemoryModel
from tests.letters import letters

SETTINGS = make_settings({"model": {"min_learned": {"spam": 3, "ham": 3}}, "verdict": {"spam": 0.9}})
TAUGHT = 80
OPPOSITE = {"ham": "spam", "spam": "ham"}


def empty_filter() -> Filter:
    model = MemoryModel()
    return make_filter(SETTINGS, model, model, wrap_tokenizer=CachingTokenizer)


def stream(*users: str, messages: int = 160) -> list[LabelledContent]:
    """Letters that are dealt to these users in turn; the first ones are taught."""
    return [
        LabelledContent(label, raw, str(n), users[n // 2 % len(users)])
        for n, (label, raw) in enumerate(letters(messages))
    ]


def evaluated(messages: Sequence[LabelledContent]) -> list[UserRow]:
    return asyncio.run(evaluate_own_models(empty_filter, messages, TAUGHT, make_message_reader(SETTINGS)))


def contradicted(messages: Sequence[LabelledContent], user: str) -> list[LabelledContent]:
    """The stream in which this user calls everything by the other name, once it is no longer taught."""
    return [
        replace(message, label=OPPOSITE[message.label]) if n >= TAUGHT and message.user == user else message
        for n, message in enumerate(messages)
    ]


def test_a_user_who_agrees_corrects_nothing_and_has_the_common_scores() -> None:
    rows = evaluated(stream("ada", "bob"))
    assert len(rows) == 80
    assert all(row.blended == row.common for row in rows)


def test_a_user_who_contradicts_is_believed_and_moves_nobody_else() -> None:
    messages = stream("ada", "mallory")
    before, after = evaluated(messages), evaluated(contradicted(messages, "mallory"))
    assert [row for row in after if row.user == "ada"] == [row for row in before if row.user == "ada"]
    last = [row for row in after if row.user == "mallory"][-10:]
    assert all(row.blended.called_spam == (row.label == "spam") for row in last)
    assert all(row.common.called_spam != (row.label == "spam") for row in last)


def test_the_report_measures_messages_by_the_corrections_of_their_user() -> None:
    report = OwnModelsReport.from_rows(evaluated(contradicted(stream("ada", "bob"), "bob")))
    assert report.users == 2
    assert report.whole.common.messages == report.whole.blended.messages == 80
    assert sum(step.blended.messages for step in report.steps) == 80
    assert sum(step.alone.messages for step in report.steps) == 80
    assert json.loads(report.to_json())["whole"]["common"]["sm"] == report.whole.common.sm
    assert (
        report.to_text().splitlines()[0]
        == f"2 users, {report.corrections} corrections of own models over the common one"
    )


def test_a_message_without_a_user_is_an_error_that_names_it() -> None:
    with pytest.raises(InputError, match="80: its line in the index names no user"):
        evaluated(stream(""))
