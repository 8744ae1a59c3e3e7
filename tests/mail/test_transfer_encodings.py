"""Transfer encodings, broken ones too."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbstream.mail.encoded_words import decode_base64, decode_transfer_encoding


@given(st.binary(max_size=120))
def test_decoding_never_raises(value: bytes) -> None:
    decode_base64(value)


@pytest.mark.parametrize("text", [b"YWJj", b"YW Jj\r\n", b"YWJj=", b"YWJjZ", b"YWJj!!"])
def test_broken_base64_gives_what_can_be_read(text: bytes) -> None:
    assert decode_base64(text).startswith(b"abc")


@pytest.mark.parametrize(
    ("text", "content"),
    [
        (b"YWI=Y2Q=", b"abcd"),  # padding ends its group alone
        (b"YQ==\r\nYg==\r\nYw", b"abc"),
        (b"YW=JjYWJj", b"abcabc"),  # padding that completes no group is ignored
        (b"YQ=-=Yg", b"ab"),
        (b"=YWJj", b"abc"),
        (b"====", b""),
    ],
)
def test_decoding_goes_on_behind_padding(text: bytes, content: bytes) -> None:
    assert decode_base64(text) == content


@given(st.lists(st.binary(max_size=9)))
def test_joined_encodings_give_joined_contents(contents: list[bytes]) -> None:
    assert decode_base64(b"".join(map(base64.b64encode, contents))) == b"".join(contents)


def test_blanks_that_were_added_behind_a_soft_break_do_not_end_it() -> None:
    assert decode_transfer_encoding(b"via= \t\r\ngra= x", "quoted-printable") == b"viagra= x"
