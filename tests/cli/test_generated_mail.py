"""Mail to measure with: reproducible, of realistic size, and something to learn from."""

from __future__ import annotations

import email
from email import policy

import numpy as np
import pytest

from nbstream.cli.generated_mail import GeneratedMail, generate_mail
from nbstream.mail.message import Message
from nbstream.mail.mime import MessageLimits
from nbstream.tokens.tokenizer import Tokenizer, TokenizerOptions

COUNT = 600


@pytest.fixture(scope="module")
def mail() -> list[GeneratedMail]:
    return list(generate_mail(COUNT, 17))


def test_the_same_seed_gives_the_same_bytes_and_another_one_others(mail: list[GeneratedMail]) -> None:
    assert list(generate_mail(COUNT, 17)) == mail
    assert list(generate_mail(20, 18)) != mail[:20]


def test_a_shorter_run_begins_with_the_same_messages(mail: list[GeneratedMail]) -> None:
    assert list(generate_mail(20, 17)) == mail[:20]


def test_both_labels_come_in_turn_and_no_message_comes_twice(mail: list[GeneratedMail]) -> None:
    assert [message.label for message in mail[:4]] == ["ham", "spam", "ham", "spam"]
    assert len({Message(message.raw, MessageLimits()).key for message in mail}) == COUNT


def test_it_is_well_formed(mail: list[GeneratedMail]) -> None:
    for message in mail[:100]:
        parsed = email.message_from_bytes(message.raw, policy=policy.default)
        assert parsed.defects == []
        assert all(part.defects == [] for part in parsed.walk())
        assert parsed["Subject"]
        assert b"\n" not in message.raw.replace(b"\r\n", b"")


def test_sizes_and_tokens_are_near_those_of_real_mail(mail: list[GeneratedMail]) -> None:
    tokenizer = Tokenizer(TokenizerOptions())
    tokens = [len(tokenizer.tokenize(Message(message.raw, MessageLimits())).all) for message in mail]
    sizes = [len(message.raw) for message in mail]

    # Of 1,500 messages of TREC 2007: see the module.
    assert np.quantile(sizes, [0.05, 0.5, 0.95]) == pytest.approx([1400, 3700, 26_000], rel=0.35)
    assert np.quantile(tokens, [0.05, 0.5, 0.95]) == pytest.approx([233, 385, 688], rel=0.2)
