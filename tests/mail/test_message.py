"""When two byte strings are the same message."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbstream.mail.charsets import decode_text
from nbstream.mail.message import Message
from nbstream.mail.mime import MessageLimits

BODY = "Grüße, this is the body.\nSecond line.\n"
DATE = "Date: Sat, 21 Nov 2026 10:00:00 +0000"
HEAD = f"Message-ID: <1@example.org>\n{DATE}\nFrom: a@example.org\nSubject: Hello there\n"


def key(text: str | bytes) -> str:
    return Message.parse(text.encode() if isinstance(text, str) else text).key


ORIGINAL = HEAD + "Content-Type: text/plain; charset=utf-8\n\n" + BODY


def test_a_key_has_24_letters_and_digits() -> None:
    assert re.fullmatch(r"[a-z2-7]{24}", key(ORIGINAL))


def test_trace_fields_line_ends_and_folding_do_not_make_another_message() -> None:
    relayed = "Received: from x by y\nX-Spam-Flag: YES\n" + ORIGINAL.replace("Hello there", "Hello\n there")

    assert key(relayed.replace("\n", "\r\n")) == key(ORIGINAL)


def test_the_same_message_id_on_another_body_is_another_message() -> None:
    assert key(ORIGINAL.replace("Second", "Other")) != key(ORIGINAL)


def test_a_large_message_keeps_its_key_when_its_header_grows() -> None:
    large = ORIGINAL + "line of text\n" * 150_000

    assert key("Received: from x by y\n" * 9 + large) == key(large)


def test_the_key_of_a_bare_text_depends_on_its_characters() -> None:
    assert key("WIN a prize: call now") == key("WIN a prize:\n call now\n")
    assert key("WIN a prize: call now") != key("WIN a prize: call later")


def test_in_a_text_that_is_no_mail_nothing_is_a_field() -> None:
    message = Message.from_text("Date: tonight?\nFrom: me\n\nUrgent: call now")

    assert not message.is_mail
    assert not message.fields
    assert [(part.content_type, part.text) for part in message.parts] == [
        ("text/plain", "Date: tonight?\r\nFrom: me\r\n\r\nUrgent: call now")
    ]
    assert message.key == Message.from_text("Date: tonight? From: me Urgent: call now").key
    assert message.key != Message.parse(b"Date: tonight?\nFrom: me\n\nUrgent: call now").key


@pytest.mark.parametrize("space", [" ", "\t", "\x0b", "\x1c", "\x1f", "\r\n ", "\u00a0", "\u3000"])
def test_white_space_in_a_field_is_no_part_of_the_key(space: str) -> None:
    assert key(f"Subject: one{space}two\n\nbody") == key("Subject: onetwo\n\nbody")


@given(st.text(max_size=300))
def test_any_text_is_a_message(text: str) -> None:
    message = Message.from_text(text)

    assert not message.is_mail
    assert len(message.key) == 24


@given(st.binary(max_size=300))
def test_any_bytes_have_a_key_that_does_not_depend_on_line_ends(raw: bytes) -> None:
    message = Message.parse(raw)

    assert Message.parse(message.raw).key == message.key
    assert Message.parse(message.raw.replace(b"\r\n", b"\n")).key == message.key


@pytest.mark.parametrize("charset", ["utf-8", "windows-1253", "utf-16-le", "shift_jis", "iso-2022-jp"])
@pytest.mark.parametrize("size", [10, 5_000, 300_000])
def test_a_text_has_the_same_key_and_end_whether_all_of_it_is_decoded_or_not(charset: str, size: int) -> None:
    content = "".join(f"word{number} \u03b1\n" for number in range(size // 10)).encode(charset)
    limits = MessageLimits(look_bytes=8_000)

    message = Message.from_encoded_text(content, charset, limits)

    whole = Message.from_text(decode_text(content, charset), limits)
    assert message.key == whole.key
    assert message.parts == whole.parts
    assert message.unread_end == whole.unread_end
