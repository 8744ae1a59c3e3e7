"""JSON of answers: the values of ``json``, in printable ASCII."""

from __future__ import annotations

import json
import math
from enum import StrEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbstream.json_text import encode_json

TEXT = st.text(st.characters(codec=None, exclude_categories=()))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda values: st.lists(values, max_size=4) | st.dictionaries(TEXT, values, max_size=4),
    max_leaves=12,
)


class Color(StrEnum):
    RED = "red"


@given(VALUES)
def test_it_has_the_values_that_json_writes_in_printable_ascii(value: Any) -> None:
    encoded = encode_json(value).decode("ascii")

    assert encoded.isprintable()
    assert json.loads(encoded) == json.loads(json.dumps(value))


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        ({"a": [1, 2.5, None, True, "x"]}, b'{"a":[1,2.5,null,true,"x"]}'),
        ('\x7f\x85\u2028\u202e\x1b\n"\\', rb'"\u007f\u0085\u2028\u202e\u001b\n\"\\"'),
        ("\ud800", rb'"\ud800"'),
        ("\U0001f600", rb'"\ud83d\ude00"'),
        (2**64 + 1, b"18446744073709551617"),
        ({1: 2}, b'{"1":2}'),
        (Color.RED, b'"red"'),
        ({Color.RED: Color.RED}, b'{"red":"red"}'),
        ((1, 2), b"[1,2]"),
        (0.1 + 0.2, b"0.30000000000000004"),
    ],
)
def test_it_writes_this(value: Any, encoded: bytes) -> None:
    assert encode_json(value) == encoded


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_not_finite_is_null(number: float) -> None:
    assert encode_json([number, "ä"]) == rb'[null,"\u00e4"]'
    assert encode_json([number]) == b"[null]"
    assert encode_json({"a": ([number, 1.5], 2**64)}) == b'{"a":[[null,1.5],18446744073709551616]}'


def test_what_json_does_not_have_is_refused() -> None:
    with pytest.raises(TypeError):
        encode_json(object())
