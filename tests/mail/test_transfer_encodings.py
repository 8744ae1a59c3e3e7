"""Transfer encodings, broken ones too."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbstream.mail.encoded_words import decode_base64


@given(st.binary(max_size=120))
def test_decoding_never_raises(value: bytes) -> None:
    decode_base64(value)


@pytest.mark.parametrize("text", [b"YWJj", b"YW Jj\r\n", b"YWJj=", b"YWJjZ", b"YWJj!!"])
def test_broken_base64_gives_what_can_be_read(text: bytes) -> None:
    assert decode_base64(text).startswith(b"abc")
