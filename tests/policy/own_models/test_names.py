"""Which own models an address has."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbstream.policy.address_patterns import AddressPattern
from nbstream.policy.own_models.names import (
    BUCKETS,
    NameTemplate,
    OwnModelNames,
    bucket_of,
    is_own_model_name,
    read_alias_lines,
)
from tests.mail.test_addresses import SPELLINGS

NAMES = OwnModelNames(
    (AddressPattern("*@school.example"), AddressPattern("*@example.org"), AddressPattern("*@*")),
    (NameTemplate("{domain}"), NameTemplate("{domain}/{local}"), NameTemplate("{address}")),
    "+",
    {"postmaster@example.org": "ann@example.org", "ann": "ann@example.org"},
)


@pytest.mark.parametrize(
    ("address", "levels"),
    [
        ("bob@school.example", ("school.example",)),
        ("Bob@Example.ORG", ("example.org", "example.org/bob")),
        ("bob@other.example", ("bob@other.example",)),
        ("bob+news@example.org", ("example.org", "example.org/bob")),
        ("postmaster@example.org", ("example.org", "example.org/ann")),
        ("+news@example.org", ("example.org", "example.org/%2Bnews".replace("%2B", "+"))),
        ("ann", ("example.org", "example.org/ann")),
        ("postmaster", ()),
    ],
)
def test_the_first_rule_names_the_levels(address: str, levels: tuple[str, ...]) -> None:
    assert NAMES.levels_of(address) == levels


@pytest.mark.parametrize("spelling", [*SPELLINGS, '"ann+news"@example.org', '"postmaster"@example.org.'])
def test_an_odd_spelling_has_the_model_of_its_user(spelling: str) -> None:
    assert NAMES.user_of(spelling) == "ann@example.org"
    assert NAMES.levels_of(spelling) == ("example.org", "example.org/ann")


def test_a_local_part_that_needs_quotation_marks_has_them_no_more_in_a_name() -> None:
    assert NAMES.user_of('"ann b+news"@example.org') == '"ann b"@example.org'
    assert NAMES.levels_of('"ann b"@example.org') == ("example.org", "example.org/ann%20b")


@pytest.mark.parametrize(
    "address",
    [
        "a/b@example.org",
        "*@example.org",
        "a}b{@example.org",
        "j\u00fcr gen@example.org",
        "bytes\udcff\ud800@example.org",
    ],
)
def test_what_an_address_could_break_out_with_is_escaped(address: str) -> None:
    (_, name) = NAMES.levels_of(address)
    assert is_own_model_name(name)
    assert name.count("/") == 1
    assert not set(name) & set("*?[]{}: ")


@given(st.text(min_size=1, max_size=80), st.text("abc.", min_size=1, max_size=20))
def test_two_users_never_share_a_model(local: str, domain: str) -> None:
    names = OwnModelNames((AddressPattern("*@*"),), (NameTemplate("{address}"),))
    own, others = names.levels_of(f"{local}@{domain}"), names.levels_of(f"{local}x@{domain}")
    assert own == () or own != others
    assert all(map(is_own_model_name, own))


@pytest.mark.parametrize("text", ["", "/", "a/b/c", "{user}", "{domain}/", "x y", "a:b", "{{domain}}"])
def test_a_template_that_names_nothing_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be a name"):
        NameTemplate(text)


@pytest.mark.parametrize("text", ["{local}-{domain}", "{domain}{local}", "{domain}/{local}.{domain}"])
def test_a_template_by_which_two_users_could_share_a_model_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="two users may have"):
        NameTemplate(text)


@given(st.binary(min_size=1, max_size=20), st.binary(min_size=1, max_size=20))
def test_addresses_of_bytes_that_are_no_utf_8_have_names_of_their_own(one: bytes, other: bytes) -> None:
    names = OwnModelNames((AddressPattern("*@*"),), (NameTemplate("{address}"),))
    users = [raw.lower().decode("utf-8", "surrogateescape") + "@example.org" for raw in (one, other)]

    own, others = map(names.levels_of, users)

    assert all(map(is_own_model_name, (*own, *others)))
    assert (own == others) == (names.user_of(users[0]) == names.user_of(users[1]))


def test_models_are_spread_over_the_groups_of_keys() -> None:
    assert {bucket_of(f"user{i}@example.org") for i in range(500)} == set(range(BUCKETS))


def test_a_login_without_domain_is_a_user_of_the_one_that_is_set() -> None:
    names = OwnModelNames(NAMES.patterns, NAMES.templates, "+", {"office": "ann@example.org"}, "example.org")

    assert names.levels_of("Bob") == ("example.org", "example.org/bob")
    assert [names.user_of(name) for name in ("office", "bob+news")] == ["ann@example.org", "bob@example.org"]
    assert names.levels_of("") == NAMES.levels_of("bob") == ()


def test_aliases_are_read_from_lines() -> None:
    lines = ["# of the school", "", "Info@Example.org ann@example.org", "ann: Ann@example.org"]
    assert read_alias_lines(lines) == {"info@example.org": "ann@example.org", "ann": "ann@example.org"}


@pytest.mark.parametrize("line", ["info@example.org", "info@example.org ann", "a@b c@d e@f"])
def test_a_line_that_is_no_alias_is_named(line: str) -> None:
    with pytest.raises(ValueError, match="line 2"):
        read_alias_lines(["# fine", line])
