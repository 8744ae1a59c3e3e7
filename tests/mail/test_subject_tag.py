"""The tag in the Subject: what adds it and what removes it again leave the same message."""

from __future__ import annotations

from email.header import Header

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nbstream.mail.encoded_words import decode_encoded_words
from nbstream.mail.header_edits import (
    HeaderEdits,
    edit_message,
    tag_subject,
    tagged_value,
    untag_subject,
    untagged_value,
)
from nbstream.mail.lines import normalize_line_ends
from nbstream.mail.message import Message
from nbstream.policy.settings import MAX_TAG_CHARACTERS
from nbstream.tokens.header_tokens import raw_header_tokens
from nbstream.tokens.tokenizer import Tokenizer

TAG, LONG_TAG = "[SPAM]", "*" * MAX_TAG_CHARACTERS
TAGS = st.sampled_from([TAG, LONG_TAG, "***", "a", "=?"])
REST = b"From: a@example.org\r\nMessage-ID: <1@x>\r\n\r\nSubject: [SPAM] of the body\r\n"


def mail(subject: bytes) -> bytes:
    return b"To: b@example.org\r\nSubject:" + subject + b"\r\n" + REST


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b" hello", b" [SPAM] hello"),
        (b"hello", b" [SPAM] hello"),
        (b"\r\n hello", b" [SPAM]\r\n hello"),
        (b" =?utf-8?q?caf=C3=A9?=", b" [SPAM] =?utf-8?q?caf=C3=A9?="),
        (b" caf\xc3\xa9", b" [SPAM] caf\xc3\xa9"),
        (b"", b" [SPAM]"),
        (b" [SPAM]y", b" [SPAM] [SPAM]y"),
        (b" Re: [SPAM] x", b" [SPAM] Re: [SPAM] x"),
        (b" " + b"x" * 70 + b"\r\n y", b" [SPAM]\r\n " + b"x" * 70 + b"\r\n y"),
    ],
)
def test_the_tag_comes_first_and_the_rest_stays(before: bytes, after: bytes) -> None:
    assert tagged_value(before, TAG) == after


@pytest.mark.parametrize(
    "value",
    [
        b" [SPAM] hello",
        b"[SPAM] hello",
        b"\r\n [SPAM]\r\n hello",
        b" [SPAM] [SPAM]  [SPAM]\r\n\thello",
        b" =?utf-8?Q?=5BSPAM=5D_hello?=",
        b" =?UTF-8?B?W1NQQU1dIGhlbGxv?=",
        b" =?iso-8859-1?q?=5BSP?=\r\n =?utf-8?q?AM=5D_h?= =?utf-8?q?ello?=",
        b" =?utf-8?Q?=5BSPAM=5D?= hello",
        b" [SPAM] =?utf-8?Q?=5BSPAM=5D_[SPAM]_hello?=",
    ],
)
def test_a_tag_that_is_there_is_found_however_it_is_written_and_not_added_again(value: bytes) -> None:
    assert tagged_value(value, TAG) == value
    assert decode_encoded_words(untagged_value(value, TAG)) == "hello"
    assert Message(untag_subject(mail(value), TAG)).key == Message(mail(b" hello")).key


@pytest.mark.parametrize(
    "value",
    [b" [spam] x", b" [SPAM]x", b" x [SPAM]", b"", b" ", b" =?utf-8?Q?x=5BSPAM=5D?=", b" =?utf-8?Q?[SPAM]"],
)
def test_what_is_no_tag_stays(value: bytes) -> None:
    assert untagged_value(value, TAG) is value


def test_a_message_without_a_subject_gets_one_and_loses_it_again() -> None:
    fields, rest = edit_message(REST, HeaderEdits((("X-A", "1"),), ("X-A",), subject_tag=TAG))

    assert (fields, rest) == (b"X-A: 1\r\nSubject: [SPAM]\r\n", REST)
    assert tag_subject(REST, TAG) is None
    assert untag_subject(fields + rest, TAG) == b"X-A: 1\r\n" + REST
    assert untag_subject(b"Subject: [SPAM]", TAG) == b""


def test_no_line_end_comes_out_of_an_encoded_word() -> None:
    value = untagged_value(b" =?utf-8?Q?=5BSPAM=5D_a=0D=0AFrom:_b?=", TAG)

    assert b"\n" not in value
    assert decode_encoded_words(value) == "a\r\nFrom: b"


def test_the_encoded_words_of_a_huge_subject_are_not_read_and_the_tag_comes_off_all_the_same() -> None:
    value = b" =?utf-8?B?W1NQQU1dIA==?=" * 1000  # "[SPAM] " a thousand times, in 26 kB
    raw = mail(value)

    assert untag_subject(raw, TAG) == raw
    tagged = tag_subject(raw, TAG)
    assert tagged is not None
    assert tagged == mail(b" [SPAM]\r\n" + value)
    assert untag_subject(tagged, TAG) == mail(b"\r\n" + value)


SUBJECT_PIECES = st.sampled_from(
    [
        *(b" ", b"\r\n ", b"\t", b"hello", b"Re:", b"[SPAM]", b"=?utf-8?q?caf=C3=A9?=", b"=?", b"\xe4"),
        *(b"x" * 60, b"***", b"=?utf-8?B?W1NQQU1d?=", b"a"),
    ]
)
SUBJECTS = st.lists(SUBJECT_PIECES, max_size=6).map(b"".join)


@given(SUBJECTS, TAGS)
@example(b" \r\n \r\n x", TAG)
@example(b"", LONG_TAG)
def test_the_tag_that_is_added_leaves_key_and_tokens_as_they_were(subject: bytes, tag: str) -> None:
    raw = normalize_line_ends(mail(subject))
    tagged = tag_subject(raw, tag)
    assert tagged is not None

    checked, taught = (Message(untag_subject(content, tag)) for content in (raw, tagged))

    assert taught.key == checked.key
    assert Tokenizer().tokenize(taught).tokens == Tokenizer().tokenize(checked).tokens
    assert raw_header_tokens(taught.fields, 1000) == raw_header_tokens(checked.fields, 1000)
    assert tag_subject(tagged, tag) == tagged
    assert tagged.endswith(REST)


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=60), st.booleans())
def test_a_tag_in_a_subject_that_another_program_encodes_is_ignored(subject: str, folded: bool) -> None:
    words = subject.split()
    plain, tagged = (
        Header(" ".join(text), "utf-8", maxlinelen=40 if folded else 1000).encode(linesep="\r\n")
        for text in (words, [TAG, *words])
    )

    checked, taught = (Message(untag_subject(mail(b" " + text.encode()), TAG)) for text in (plain, tagged))

    if not plain.startswith(TAG):
        assert taught.key == checked.key


@given(st.lists(SUBJECT_PIECES, max_size=4).map(b"".join), st.binary(max_size=40))
def test_edits_change_nothing_of_the_body(subject: bytes, body: bytes) -> None:
    raw = mail(subject)[: -len(REST)] + b"X-A: 2\r\n\r\n" + body

    _, rest = edit_message(raw, HeaderEdits((("X-B", "1"),), ("x-a",), subject_tag=TAG))

    assert rest.partition(b"\r\n\r\n")[2] == body
