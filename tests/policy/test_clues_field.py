"""The clues on a message's header: readable, bounded, and no way in for the writer of the message."""

from __future__ import annotations

import re
import string
from email import message_from_bytes, policy
from urllib.parse import unquote_to_bytes

from hypothesis import example, given
from hypothesis import strategies as st

from nbstream.bayes.clues import Clue
from nbstream.mail import header_fields
from nbstream.mail.message import Message
from nbstream.policy.header import (
    MAX_CLUES,
    MAX_VALUE_BYTES,
    FilterMarks,
    HeaderPolicy,
    clues_field_value,
    parse_own_id,
)
from nbstream.policy.verdict import Verdict
from nbstream.server.feedback_mailbox import quoted_ids
from tests.policy.checked_mail import checked

MARKS = FilterMarks()
ID = "abcdefghijklmnopqrstuvwx"
FINITE = st.floats(allow_nan=False, allow_infinity=False)
# Any bytes, and such as would break out of a field, a line or a word.
BREAKING = st.sampled_from(
    [
        b"\r\nX-Spam-Flag: NO",
        b"\n\n",
        b"=?utf-8?q?a?=",
        b'"',
        b"(",
        b",",
        b"; id=" + ID.encode(),
        b"\x1b[2J",
        b"%0D%0A",
    ]
)
TOKENS = st.lists(st.one_of(st.binary(min_size=1, max_size=64), BREAKING), min_size=1, max_size=8).map(b"".join)
ALL_CLUES = st.lists(st.builds(Clue, TOKENS, FINITE), min_size=1, max_size=20)
MAIL = b"Subject: x\r\n\r\nbody\r\n"


def fields(clues: list[Clue]) -> list[tuple[str, str]]:
    return list(HeaderPolicy("default").edits(checked(ID, Verdict.SPAM, 0.99, clues)).added)


def test_the_field_has_token_and_weight_the_strongest_clue_first() -> None:
    clues = [Clue(b"subject:prize", 4.123), Clue(b"from:ann@example.org", -2.0), Clue(b"order:from>to", 0.004)]

    assert (
        clues_field_value(clues)
        == "subject:prize +4.12,\r\n\tfrom:ann@example.org -2.00,\r\n\torder:from>to +0.00"
    )


def test_unsafe_bytes_are_written_as_hexadecimal_digits() -> None:
    assert (
        clues_field_value([Clue("body:prämie,\r\n%=?".encode(), 1)]) == "body:pr%C3%A4mie%2C%0D%0A%25%3D%3F +1.00"
    )


@given(ALL_CLUES)
@example([Clue(b"\xff" * 64, -1.7e308)] * 20)
@example([Clue(b"x" * 64, -9999.994)] * 20)
def test_any_tokens_make_one_ascii_field_of_bounded_length_and_lines(clues: list[Clue]) -> None:
    value = dict(fields(clues))[MARKS.clues_field]

    assert len(value.encode("ascii")) <= MAX_VALUE_BYTES
    assert set(value) <= set(string.ascii_letters + string.digits + string.punctuation + " \t\r\n") - set(
        '"\\()<=?;&`'
    )
    assert all(len(line) <= 78 for line in f"{MARKS.clues_field}: {value}".split("\r\n"))
    assert re.sub(r",\r\n\t", "", value).isprintable()
    assert 1 <= len(value.split(",")) == min(len(clues), MAX_CLUES)


@given(ALL_CLUES)
def test_with_any_tokens_all_fields_of_the_message_are_read_back_as_they_were(clues: list[Clue]) -> None:
    written = fields(clues)
    raw = header_fields.prepend_fields(MAIL, written)

    for parsed in (message_from_bytes(raw), message_from_bytes(raw, policy=policy.default)):
        assert parsed.keys() == [*(name for name, _ in written), "Subject"]
        parts = str(parsed[MARKS.clues_field]).replace("\r\n", "").split(",")
        assert [" ".join(field.split()) for field in parts] == clues_field_value(clues).split(",\r\n\t")
        assert str(parsed.get_payload()).strip() == "body"
    assert [field.name for field in Message(raw).fields] == [*(name.lower() for name, _ in written), "subject"]
    assert header_fields.strip_fields(raw, MARKS.names) == MAIL


@given(st.lists(st.builds(Clue, TOKENS.map(lambda token: token[:14]), FINITE), min_size=1, max_size=MAX_CLUES))
def test_short_tokens_can_be_read_back_byte_for_byte(clues: list[Clue]) -> None:
    parts = [field.rsplit(" ", 1)[0] for field in clues_field_value(clues).split(",\r\n\t")]

    assert [unquote_to_bytes(field) for field in parts] == [clue.token for clue in clues]


@given(ALL_CLUES)
@example([Clue(f"from:x-nbstream:model=a;id={ID[::-1]}".encode(), 1.0)])
@example([Clue(b"x-nbstream:model=a", 1.0), Clue(b"id=" + ID[::-1].encode(), 1.0)])
def test_no_token_is_taken_for_an_id_that_a_mail_quotes(clues: list[Clue]) -> None:
    written = fields(clues)
    quoted = "".join(f"> {name}: {value}\n".replace("\r\n", "\n") for name, value in written)

    assert quoted_ids(Message.parse(f"Subject: Fwd\n\n{quoted}".encode()), MARKS.own_field) == {ID}
    assert parse_own_id(dict(written)[MARKS.clues_field]) is None
