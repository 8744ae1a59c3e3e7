"""Patterns over addresses: what they match, and when one says nothing new."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nbstream.policy.address_patterns import MAX_PATTERN_LENGTH, AddressPattern

TEXTS = st.text("ab@*?", min_size=1, max_size=7)
ADDRESSES = [
    "".join(letters)
    for size in range(3, 6)
    for letters in itertools.product("ab@c", repeat=size)
    if "@" in letters
]
"""All short words over the letters of the patterns and one that is in none."""


def matched(text: str, address: str) -> bool:
    """The plain meaning of a pattern, by trying everything."""
    if not text:
        return not address
    if text[0] == "*":
        return matched(text[1:], address) or (bool(address) and matched(text, address[1:]))
    return bool(address) and text[0] in {"?", address[0]} and matched(text[1:], address[1:])


def is_address(word: str) -> bool:
    local, _, domain = word.rpartition("@")
    return bool(local and domain)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("*", "a@b"),
        ("*@sales.example", "Ann@SALES.example"),
        ("ANN@*", "ann@a.b.c"),
        ("?nn@sales.exampl?", "ann@sales.example"),
        ("ann+*@x", "ann+@x"),
        ("*@[192.0.2.1]", "a@[192.0.2.1]"),
        ("*@[!a]", "a@[!a]"),
        ("jürgen@x", "JÜRGEN@x"),
        ("*.x", "a@b@c.x"),
    ],
)
def test_addresses_that_match(text: str, address: str) -> None:
    assert AddressPattern(text).matches(address)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("*@sales.example", "ann@sales.example.org"),
        ("*@sales.example", "ann@xsales.example"),
        ("*@sales.example", "ann@salesxexample"),
        ("?@x", "ab@x"),
        ("*", "postmaster"),
        ("*", "@x"),
        ("*", "x@"),
        ("*@[ab]", "x@a"),
        ("", "a@b"),
    ],
)
def test_addresses_that_do_not_match(text: str, address: str) -> None:
    assert not (text and AddressPattern(text).matches(address))


@settings(deadline=None)
@given(TEXTS)
def test_matching_agrees_with_a_direct_definition(text: str) -> None:
    for address in ADDRESSES:
        assert AddressPattern(text).matches(address) == (is_address(address) and matched(text, address))


@pytest.mark.parametrize(
    "text", ["", "a b@x", "a@x\n", "<a@x>", "a\0@x", "a@\u202ex", "a\x1b@x", "x" * 317 + "@x.y"]
)
def test_text_that_is_no_pattern_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=f"must be 1 to {MAX_PATTERN_LENGTH} characters"):
        AddressPattern(text)


@pytest.mark.parametrize("text", ["sales.example", "@sales.example", "ann@", "??", "?", "@*@", "ann?", "@", "*@"])
def test_patterns_that_no_address_matches_are_known(text: str) -> None:
    assert not AddressPattern(text).matches_any_address


@pytest.mark.parametrize("text", ["*", "a@b", "*@b", "a@*", "???", "*b", "a*", "?@?", '"a@b"@c', "**"])
def test_patterns_that_some_address_matches_are_known(text: str) -> None:
    assert AddressPattern(text).matches_any_address


@pytest.mark.parametrize(
    ("outer", "inner"),
    [
        ("a@b", "A@B"),
        ("*", "*@x"),
        ("*", "**"),
        ("*@*", "*"),
        ("?*@*?", "*"),
        ("*@sales.example", "ann@sales.example"),
        ("*@sales.example", "?*@sales.example"),
        ("*@*.example", "*@a.b.example"),
        ("*sales*", "*@sales.example"),
        ("*?@x", "?*@x"),
        ("ann*@x", "ann+?@x"),
        ("*a*b*", "*a*a*b*b*"),
    ],
)
def test_a_pattern_covers_a_narrower_one(outer: str, inner: str) -> None:
    assert AddressPattern(outer).covers(AddressPattern(inner))


@pytest.mark.parametrize(
    ("outer", "inner"),
    [
        ("ann@sales.example", "*@sales.example"),
        ("*@sales.example", "*sales.example"),
        ("*@a.example", "*@b.example"),
        ("?@x", "*@x"),
        ("*@sales.example", "ann@*"),
        ("ann?@x", "ann*@x"),
        ("*@a*", "*@*a"),
    ],
)
def test_a_pattern_does_not_cover_what_it_misses(outer: str, inner: str) -> None:
    assert not AddressPattern(outer).covers(AddressPattern(inner))


@settings(deadline=None)
@given(TEXTS, TEXTS)
def test_covering_is_sound(outer: str, inner: str) -> None:
    if AddressPattern(outer).covers(AddressPattern(inner)):
        for address in ADDRESSES:
            assert AddressPattern(outer).matches(address) or not AddressPattern(inner).matches(address)


@settings(deadline=None)
@given(st.text("ab@*?", min_size=1, max_size=3), st.text("ab@*?", min_size=1, max_size=3))
def test_covering_is_complete_for_short_patterns(outer: str, inner: str) -> None:
    """Where two patterns of three characters differ, they differ for an address of at most five."""
    missed = any(
        AddressPattern(inner).matches(address) and not AddressPattern(outer).matches(address)
        for address in ADDRESSES
    )
    assert AddressPattern(outer).covers(AddressPattern(inner)) or missed


def test_patterns_made_to_take_long_are_compared_quickly() -> None:
    blow_up = AddressPattern("*a" + "?" * 200 + "@x")
    assert not AddressPattern("*" + "a?" * 100 + "@x").covers(blow_up)
    assert not AddressPattern("*a*" + "a*" * 150 + "b").matches("a" * 4000 + "@x")
    assert blow_up.matches_any_address
    assert blow_up.covers(AddressPattern(blow_up.text.upper()))
