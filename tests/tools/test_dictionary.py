"""The dictionary of stored tokens: made from nobody's mail, always the same, and worth its bytes."""

from __future__ import annotations

import zlib
from statistics import mean

from nbstream.mail.message import Message
from nbstream.store import compression
from nbstream.store.recent.checked_messages import CheckedMessage
from nbstream.tokens.tokenizer import Tokenizer
from tests.harness.samples import samples
from tools.dictionary.__main__ import train_dictionary
from tools.dictionary.typical_mail import typical_mail


def contents(messages: list[bytes]) -> list[bytes]:
    tokenizer = Tokenizer()
    parsed = map(Message.parse, messages)
    return [CheckedMessage(m.key, tokenizer.tokenize(m).tokens, 0.5, "unsure").content() for m in parsed]


def test_the_same_mail_gives_the_same_dictionary() -> None:
    assert train_dictionary(300) == train_dictionary(300)


def test_a_message_is_smaller_than_deflated() -> None:
    new_mail = contents([*typical_mail(50, seed=2), *(raw for _, raw in samples(50))])
    compressed = mean(len(compression.compress(content)) for content in new_mail)
    assert compressed < 0.9 * mean(len(zlib.compress(content, 1)) for content in new_mail)
