"""``nbstream.mail.visible_text``."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbstream.mail.visible_text import visible_text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Ordinary text, ü and 中文 and שלום", "Ordinary text, ü and 中文 and שלום"),
        ("two\r\n lines\tand more", "two   lines and more"),
        ("bell\a and escape\x1b[31m", "bell␇ and escape␛[31m"),
        ("invoice\u202etxt.exe", "invoice[U+202E]txt.exe"),
        ("\u2066isolated\u2069", "[U+2066]isolated[U+2069]"),
        ("no\u200bspace", "no[U+200B]space"),
        ("delete\x7f", "delete[U+007F]"),
        ("half\udc80", "half[U+DC80]"),
        ("filled\u3164\u1160", "filled[U+3164][U+1160]"),
        ("e" + "\u0301" * 50, "e" + "\u0301" * 4),
    ],
)
def test_what_is_hidden_is_shown(text: str, shown: str) -> None:
    assert visible_text(text) == shown


@given(st.text(alphabet=st.characters(), max_size=200))
def test_nothing_hidden_is_left_and_nothing_is_added_to_the_rest(text: str) -> None:
    shown = visible_text(text)
    assert not [c for c in shown if unicodedata.category(c) in {"Cc", "Cf", "Cs", "Cn", "Co", "Zl", "Zp"}]
    assert visible_text(shown) == shown


def test_the_length_is_bounded_before_anything_is_looked_at() -> None:
    assert visible_text("a" * 10 + "\u202e", 10) == "a" * 10
