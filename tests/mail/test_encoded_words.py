"""Encoded words in header fields, sound, broken and hostile."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbstream.mail.encoded_words import decode_encoded_words
from tests.mail.hostile_values import HOSTILE_PIECES


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (b"plain", "plain"),
        (b"=?utf-8?q?caf=C3=A9?=", "café"),
        (b"=?ISO-8859-1?B?Y2Fm6Q==?= au lait", "café au lait"),
        (b"=?utf-8?q?one_?=\r\n =?utf-8?q?two?=", "one two"),
        (b"=?utf-8*en?q?hi?=", "hi"),
        (b"=?utf-8?q?caf=C3?=\r\n =?UTF-8?Q?=A9?= =?utf-8?b?w6k=?=", "caféé"),  # a character cut in two
        (b"=?utf-8?b?Y2Fmww==?= =?utf-8?b?qQ==?=", "café"),
        (b"=?no-such-charset?q?caf=C3=A9?=", "café"),
        (b"=?utf-8?b?broken base64", "=?utf-8?b?broken base64"),
        (b"=?utf-8?b?YWJj?= =?", "abc =?"),
        ("grüß".encode("latin-1"), "grüß"),
    ],
)
def test_encoded_words_are_decoded(value: bytes, text: str) -> None:
    assert decode_encoded_words(value) == text


@given(st.binary(max_size=120))
def test_decoding_never_raises(value: bytes) -> None:
    decode_encoded_words(value)


@pytest.mark.parametrize("piece", HOSTILE_PIECES)
def test_hostile_values_are_read_in_one_pass(piece: bytes) -> None:
    # When a pattern could start again at each piece, these took minutes: the test's time limit is the assertion.
    decode_encoded_words(piece * 30_000)
