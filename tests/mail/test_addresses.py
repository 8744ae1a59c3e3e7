"""The canonical form of an address: one for all spellings of a mailbox, and different ones for two mailboxes."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbstream.mail.addresses import (
    canonical_address,
    canonical_domain,
    find_addresses,
    format_address,
    parse_address,
    read_from,
)
from nbstream.mail.header_fields import HeaderField

ANN = "ann@example.org"

SPELLINGS = [
    "ann@example.org",
    "Ann@EXAMPLE.Org",
    "ann@example.org.",
    "<ann@example.org>",
    " ann@example.org ",
    '"ann"@example.org',
    '"an\\n"@example.org',
    '"\\a\\n\\n"@example.org.',
    "an\\n@example.org",
    '"a"nn@example.org',
    "<@relay.example,@other.example:ann@example.org>",
    "ann@example\N{IDEOGRAPHIC FULL STOP}org",
    "ann@\N{FULLWIDTH LATIN SMALL LETTER E}xample.org",
    "ann@exam\N{SOFT HYPHEN}ple.org",
]

LOCAL_PARTS = st.text(st.characters(codec="utf-8", exclude_categories=["Lu", "Lt"]), min_size=1, max_size=8)
LABELS = st.from_regex(r"[a-z][a-z0-9]{0,6}", fullmatch=True) | st.sampled_from(["bücher", "straße", "例え"])
DOMAINS = st.lists(LABELS, min_size=1, max_size=3).map(".".join)


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_what_a_mail_server_reads_as_one_mailbox_is_one_address(spelling: str) -> None:
    assert canonical_address(spelling) == ANN


@pytest.mark.parametrize(
    ("spelling", "canonical"),
    [
        ("ann@BÜCHER.example", "ann@xn--bcher-kva.example"),
        ("ann@bu\N{COMBINING DIAERESIS}cher.example", "ann@xn--bcher-kva.example"),
        ("ann@XN--BCHER-KVA.example", "ann@xn--bcher-kva.example"),
        ("ann@straße.example", "ann@xn--strae-oqa.example"),
        ("ann@\N{KELVIN SIGN}unde.example", "ann@kunde.example"),
        ("\N{KELVIN SIGN}URT@kunde.example", "\N{KELVIN SIGN}urt@kunde.example"),
        ("JÖRG@example.org", "jörg@example.org"),
        ('"ann b"@example.org', '"ann b"@example.org'),
        ('"a@b"@example.org', '"a@b"@example.org'),
        ("a..b@example.org", '"a..b"@example.org'),
        ('"a.b"@example.org', "a.b@example.org"),
        ('"a\\"b"@example.org', '"a\\"b"@example.org'),
        ('a"b@example.org', '"a\\"b"@example.org'),
        ("ann@[192.0.2.1]", "ann@[192.0.2.1]"),
        ("ann@[IPv6:2001:DB8::1]", "ann@[ipv6:2001:db8::1]"),
        ("ann@a_b.example", "ann@a_b.example"),
        ("@EXAMPLE.org.", "@example.org"),
        ("Ann", "ann"),
        ('"ann"', "ann"),
        ("SITE\\Ann", "site\\ann"),
        ("ann@", "ann@"),
        ("", ""),
        ("<>", ""),
    ],
)
def test_the_one_form_of_an_address(spelling: str, canonical: str) -> None:
    assert canonical_address(spelling) == canonical


@given(st.text(max_size=20) | st.text('ab"\\@.<> K\N{KELVIN SIGN}ßüΣ', max_size=12))
def test_the_canonical_form_of_a_canonical_form_is_itself(text: str) -> None:
    assert canonical_address(canonical_address(text)) == canonical_address(text)


@given(LOCAL_PARTS.filter(lambda local: local == local.lower()), DOMAINS, st.randoms())
def test_quotation_marks_and_backslashes_make_no_other_mailbox(local: str, domain: str, random: Random) -> None:
    quoted = "".join("\\" * (letter in '"\\' or random.random() < 0.5) + letter for letter in local)
    assert canonical_address(f'"{quoted}"@{domain}.') == format_address(local, canonical_domain(domain))


@given(LOCAL_PARTS, LOCAL_PARTS, DOMAINS)
def test_two_mailboxes_have_two_forms(local: str, other: str, domain: str) -> None:
    is_same = local.lower() == other.lower()
    assert (format_address(local.lower(), domain) == format_address(other.lower(), domain)) == is_same


@given(LOCAL_PARTS.filter(lambda local: local == local.lower()), DOMAINS)
def test_any_local_part_comes_back_from_its_address(local: str, domain: str) -> None:
    canonical = canonical_domain(domain)
    assert parse_address(format_address(local, canonical)) == (local, canonical)


@pytest.mark.parametrize(
    "field",
    [
        "ann@example.org",
        "Ann <ANN@example.org.>",
        '"ann"@example.org',
        '"Ann, of the shop" <"an\\n"@example.org>',
        "Ann <ann@example\N{IDEOGRAPHIC FULL STOP}org>",
    ],
)
def test_the_one_sender_in_a_field_is_read_in_the_canonical_form(field: str) -> None:
    assert read_from([HeaderField("from", field.encode())]) == ((ANN,), True)


@pytest.mark.parametrize(
    ("field", "addresses"),
    [
        ('"a b"@example.org, Bob <bob@BÜCHER.example>', ['"a b"@example.org', "bob@xn--bcher-kva.example"]),
        ('"<eve@evil.example>"@example.org', ['"<eve@evil.example>"@example.org']),
        ('"a,b@c" <ann@example.org>', [ANN]),
        ('"a"."b"@example.org', ["a.b@example.org"]),
    ],
)
def test_addresses_in_a_field_are_read_in_the_canonical_form(field: str, addresses: list[str]) -> None:
    assert find_addresses([field.encode()]) == addresses
