"""Patterns over addresses: what they match."""

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
        ("list@x", '"list"@x.'),
        ('"list"@x.', "list@x"),
        ("l*@x", '"\\list"@x'),
        ("a?b@x", '"a b"@x'),
        ("*@BÜCHER.example", "ann@xn--bcher-kva.example"),
        ("*@*.bücher.*", "ann@sub.bücher.example"),
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
        ("kurt@*", "\N{KELVIN SIGN}urt@x"),
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


@pytest.mark.parametrize("text", ["*@b\u00fcch*.example", "*@b\u00fcch?r.example"])
def test_a_pattern_that_would_match_something_else_than_is_written_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must have no"):
        AddressPattern(text)
