"""The dictionary of checked messages: made from nobody's mail, always the same, and worth its bytes."""

from __future__ import annotations

import zlib
from statistics import mean

import zstandard

from nbstream.mail.message import Message
from nbstream.store.recent import stored_form
from nbstream.store.recent.checked_messages import CheckedMessage
from nbstream.tokens.tokenizer import Tokenizer
from tests.letters import letters
from tools.dictionary.__main__ import train_dictionary
from tools.dictionary.typical_mail import typical_mail


def contents(messages: list[bytes]) -> list[bytes]:
    tokenizer = Tokenizer()
    parsed = map(Message.parse, messages)
    return [CheckedMessage(m.key, tokenizer.tokenize(m), 0.5, "unsure").content() for m in parsed]


def test_typical_mail_is_the_same_for_the_same_seed() -> None:
    assert list(typical_mail(20, seed=3)) == list(typical_mail(20, seed=3))
    assert list(typical_mail(20, seed=3)) != list(typical_mail(20, seed=4))


def test_typical_mail_has_what_mail_programs_write() -> None:
    joined = b"\n".join(contents(list(typical_mail(200, seed=5))))
    for token in (b"x-mailer:outlook", b"type:text/html", b"field:List-Id", b"body:the"):
        assert token in joined


def test_the_same_mail_gives_the_same_dictionary() -> None:
    assert train_dictionary(300) == train_dictionary(300)


def test_a_message_is_smaller_than_deflated() -> None:
    new_mail = contents([*typical_mail(50, seed=2), *(raw for _, raw in letters(50))])
    compressed = mean(len(stored_form.compress(content)) for content in new_mail)
    assert compressed < 0.9 * mean(len(zlib.compress(content, 1)) for content in new_mail)


def test_the_dictionary_bears_its_identifier() -> None:
    frame = zstandard.get_frame_parameters(stored_form.compress(b"body:the"))
    assert frame.dict_id == stored_form.DICTIONARY_ID
