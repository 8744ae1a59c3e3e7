"""``nbstream.web.rendering``."""

from __future__ import annotations

import math

import pytest

from nbstream.web.rendering import (
    foreign,
    foreign_lines,
    format_probability,
    local_time,
)


def test_foreign_text_is_isolated_and_escaped() -> None:
    assert foreign("<script>alert(1)</script>\u202e") == (
        '<bdi class="foreign">&lt;script&gt;alert(1)&lt;/script&gt;[U+202E]</bdi>'
    )


@pytest.mark.parametrize("nothing", [None, "", " ", "\u00a0\u3000\t\r\n", "\ufe0f\u034f", " " * 100 + "x"])
def test_what_is_not_known_or_not_seen_is_a_dash(nothing: str | None) -> None:
    assert foreign(nothing) == '<span class="none">\N{EN DASH}</span>'


@pytest.mark.parametrize("at", [math.nan, math.inf, 1e300, -1e300])
def test_what_is_no_time_is_a_dash(at: float) -> None:
    assert local_time(at) == '<span class="none">\N{EN DASH}</span>'


def test_lines_that_others_wrote_stay_lines_and_are_harmless() -> None:
    assert foreign_lines("one\u202e <b>\r\ntwo\n\n\tthree") == (
        '<bdi class="foreign">one[U+202E] &lt;b&gt;\ntwo\n\n three</bdi>'
    )


@pytest.mark.parametrize(
    ("probability", "shown"),
    [
        (0.5, "0.500"),
        (0.12345, "0.123"),
        (0.999, "0.999"),
        (0.99952, "0.9995"),
        (1 - 3e-7, "> 0.999999"),
        (3e-5, "0.00003"),
        (0.0, "< 0.000001"),
        (1.0, "> 0.999999"),
    ],
)
def test_a_probability_near_its_ends_is_not_rounded_to_them(probability: float, shown: str) -> None:
    assert format_probability(probability) == shown
