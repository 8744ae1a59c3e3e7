"""Parameters of structured header fields, sound, broken and hostile."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbstream.mail.mime import parse_parameters
from tests.mail.hostile_values import HOSTILE_PIECES


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"text/plain", ("text/plain", {})),
        (b'TEXT/Plain; Charset="UTF-8"; Name=y; x=z', ("text/plain", {"charset": "UTF-8", "name": "y"})),
        (b'multipart/mixed; boundary="a;b\\"c"', ("multipart/mixed", {"boundary": 'a;b"c'})),
        (b"a/b; filename*=utf-8''caf%C3%A9", ("a/b", {"filename": "café"})),
        (b'a/b; name*0="on"; name*1="e"', ("a/b", {"name": "one"})),
        (b"a/b; filename==?utf-8?q?caf=C3=A9?=", ("a/b", {"filename": "café"})),
        (b'a/b; boundary="open', ("a/b", {"boundary": "open"})),
        (b"", ("", {})),
    ],
)
def test_parameters_are_read(value: bytes, expected: tuple[str, dict[str, str]]) -> None:
    assert parse_parameters(value) == expected


@given(st.binary(max_size=120))
def test_parsing_never_raises(value: bytes) -> None:
    parse_parameters(value)


@pytest.mark.parametrize("piece", HOSTILE_PIECES)
def test_hostile_values_are_read_in_one_pass(piece: bytes) -> None:
    # When a pattern could start again at each piece, these took minutes: the test's time limit is the assertion.
    parse_parameters(b"a/b" + piece * 30_000)


def test_of_long_values_a_thousand_bytes_are_decoded_but_the_whole_boundary() -> None:
    long = b"a" * 3000

    _, parameters = parse_parameters(b"multipart/mixed; boundary=" + long + b"; name=" + long)

    assert parameters["boundary"] == long.decode()
    assert parameters["name"] == "a" * 1000
