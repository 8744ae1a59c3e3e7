"""Entries of the stream listener: what is read, what is refused, and the answers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbstream.listeners.stream.codec import (
    MAX_ID_BYTES,
    StreamRequest,
    UnreadableEntry,
    read_entry,
    refusal_fields,
    with_entry_ids,
)

NAMES = st.sampled_from([b"raw", b"text", b"id", b"label", b"from", b"to"]) | st.binary(max_size=8)
VALUES = st.sampled_from([b"spam", b"ham", b""]) | st.binary(max_size=40)


def test_a_text_and_a_message_are_distinguished() -> None:
    assert read_entry({b"text": "Süß \U0001f36c".encode()}, 100) == StreamRequest(None, "Süß \U0001f36c".encode())
    assert read_entry({b"raw": b"Subject: \xff\r\n\r\n"}, 100) == StreamRequest(b"Subject: \xff\r\n\r\n", None)


def test_all_fields_are_read() -> None:
    fields = {b"text": b"x", b"id": b"7", b"label": b"spam", b"from": b"shop", b"to": b"ann@example.org"}

    assert read_entry(fields, 100) == StreamRequest(None, b"x", "spam", "shop", "ann@example.org")


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({}, "an entry has either raw or text"),
        ({b"raw": b"x", b"text": b"x"}, "an entry has either raw or text"),
        ({b"text": b"x", b"lable": b"spam"}, "an entry has no other fields than raw, text, id, label, from, to"),
        ({b"text": b"x" * 101}, "the message is larger than 100 bytes"),
        ({b"text": b"x", b"label": b"SPAM"}, "label must be ham or spam"),
        ({b"text": b"x", b"id": b"x" * 257}, "id is longer than 256 bytes"),
        ({b"text": b"x", b"from": b"x" * 1001}, "from is longer than 1000 bytes"),
        ({b"text": b"x", b"to": b"x" * 1001}, "to is longer than 1000 bytes"),
    ],
)
def test_an_entry_that_is_wrong_is_refused_with_a_reason(fields: dict[bytes, bytes], why: str) -> None:
    with pytest.raises(UnreadableEntry) as caught:
        read_entry(fields, 100)

    assert str(caught.value) == why


@given(st.dictionaries(NAMES, VALUES, max_size=8))
def test_any_fields_are_a_request_or_refused_in_plain_words(fields: dict[bytes, bytes]) -> None:
    try:
        request = read_entry(fields, 30)
    except UnreadableEntry as error:
        refused = str(error)
    else:
        assert (request.raw is None) != (request.text is None)
        assert request.label in {None, "spam", "ham"}
        return
    assert refused.isascii()
    assert len(refused) < 100


@given(st.binary(max_size=2 * MAX_ID_BYTES))
def test_an_answer_names_its_entry_by_both_ids(own: bytes) -> None:
    answer = with_entry_ids(refusal_fields("why"), b"1-0", {b"id": own})

    assert answer == {"entry": b"1-0", "id": own[:MAX_ID_BYTES] or b"1-0", "error": "why"}
