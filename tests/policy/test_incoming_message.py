"""The bytes of a message become the same message whichever way they came in."""

from __future__ import annotations

import pytest

from nbstream.mail.mime import MessageLimits
from nbstream.policy.incoming_message import incoming_message, with_guarded_first_line, without_verdict_fields
from nbstream.policy.verdict_fields import GUARD_FIELD, VERDICT_FIELDS

CLEAN = b"Subject: lunch\r\n\r\nAre you coming?\r\n"


@pytest.mark.parametrize("line_end", [b"\n", b"\r", b"\r\n"])
def test_line_ends_of_any_kind_make_the_same_message(line_end: bytes) -> None:
    raw = CLEAN.replace(b"\r\n", line_end)

    assert incoming_message(raw, MessageLimits()).raw == CLEAN


@pytest.mark.parametrize("name", VERDICT_FIELDS)
def test_a_verdict_that_comes_from_outside_is_removed(name: str) -> None:
    raw = f"{name}: No, score=-99\n folded\n".encode() + CLEAN

    message = incoming_message(raw, MessageLimits())

    assert message.raw == CLEAN
    assert message.key == incoming_message(CLEAN, MessageLimits()).key


def test_a_clean_message_is_not_copied() -> None:
    assert incoming_message(CLEAN, MessageLimits()).raw is CLEAN
    assert without_verdict_fields(CLEAN) is CLEAN


def test_a_first_line_that_continues_a_field_gets_one_of_ours() -> None:
    assert with_guarded_first_line(b" text\r\n") == GUARD_FIELD.encode() + b":\r\n text\r\n"
    assert with_guarded_first_line(CLEAN) is CLEAN
