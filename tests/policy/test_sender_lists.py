"""Sender lists: what an entry matches, what proves a sender, and whose list decides."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbstream.mail.addresses import canonical_address, read_from
from nbstream.mail.header_fields import HeaderField
from nbstream.mail.message import Message
from nbstream.policy.address_patterns import SenderPattern
from nbstream.policy.sender_lists import (
    SITE,
    EvidenceReader,
    ListDecision,
    ListEntry,
    ListKind,
    OwnerList,
    Sender,
    SenderLists,
    is_aligned,
)
from nbstream.policy.verdict import Verdict
from tests.mail.test_addresses import SPELLINGS

MX = "mx.example.org"
READER = EvidenceReader(frozenset({MX}))
RECEIVED = "Received: from a.example by mx.example.org; Sun, 1 Jan 2023 00:00:00 +0000"
USER = "ann@example.org"


def owner_list(allow: tuple[str, ...] = (), block: tuple[str, ...] = ()) -> OwnerList:
    kinds = (*((ListKind.ALLOW, text) for text in allow), *((ListKind.BLOCK, text) for text in block))
    return OwnerList([ListEntry(kind, SenderPattern.parse(text)) for kind, text in kinds])


def message(from_value: str, results: str = "", server: str = MX) -> Message:
    results_field = f"Authentication-Results: {server}; {results}\r\n" if results else ""
    return Message.parse(
        f"{results_field}{RECEIVED}\r\nFrom: {from_value}\r\nSubject: hello\r\n\r\nHi\r\n".encode()
    )


def decided(
    lists: SenderLists, mail: Message, sender: str = "", recipient: str = USER, client: str = "", login: str = ""
) -> str:
    decision = lists.look_up(mail, Sender(sender, client, login)).decide_for(recipient)
    return f"{decision.name} {decision.owner}" if decision else ""


def site(*allow: str, block: tuple[str, ...] = ()) -> SenderLists:
    return SenderLists(owner_list(allow, block), {}, READER)


PROVED = "dkim=pass header.d=partner.example"


# What an entry is.


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("Boss@Partner.Example", "boss@partner.example"),
        ("partner.example", "partner.example"),
        ("*@partner.example", "partner.example"),
        ("@partner.example", "partner.example"),
        ("*.partner.example", "*.partner.example"),
        ("*@*.partner.example", "*.partner.example"),
        ("192.0.2.7", "192.0.2.7/32"),
        ("192.0.2.7/24", "192.0.2.0/24"),
        ("2001:DB8::/32", "2001:db8::/32"),
        ('"boss"@partner.example.', "boss@partner.example"),
        ("boss@BÜCHER.example", "boss@xn--bcher-kva.example"),
        ("*.bücher.example", "*.xn--bcher-kva.example"),
        ("\N{KELVIN SIGN}urt@partner.example", "\N{KELVIN SIGN}urt@partner.example"),
    ],
)
def test_an_entry_has_one_form(written: str, text: str) -> None:
    assert SenderPattern.parse(written).text == text
    assert SenderPattern.parse(text) == SenderPattern.parse(written)


@pytest.mark.parametrize(
    "written",
    [
        "",
        "partner",
        "*",
        "192.0.2.999",
        "a b@x.example",
        "@",
        "ann@",
        "<ann@x.example>",
        "bounce-*@lists.example",
        "a@x\ny",
        f"{'x' * 400}.example",
    ],
)
def test_what_is_no_sender_is_refused(written: str) -> None:
    with pytest.raises(ValueError, match="must be"):
        SenderPattern.parse(written)


@pytest.mark.parametrize(
    ("pattern", "address", "matches"),
    [
        ("boss@partner.example", "boss@partner.example", True),
        ("boss@partner.example", "other@partner.example", False),
        ("partner.example", "boss@partner.example", True),
        ("partner.example", "boss@mail.partner.example", False),
        ("*.partner.example", "boss@a.mail.partner.example", True),
        ("*.partner.example", "boss@partner.example", False),
        ("*.partner.example", "boss@evilpartner.example", False),
    ],
)
def test_an_entry_matches_addresses(pattern: str, address: str, matches: bool) -> None:
    assert decided(site(block=(pattern,)), message(address)) == ("block site" if matches else "")


# What proves a sender.


@pytest.mark.parametrize(
    "results",
    [
        "dkim=pass header.d=partner.example",
        "dkim=pass header.i=@partner.example",
        "dkim=fail header.d=partner.example; dkim=pass header.d=mail.partner.example",
        "spf=pass smtp.mailfrom=bounce@bounces.partner.example",
        "dmarc=pass header.from=partner.example",
        "dmarc=fail header.from=partner.example; dmarc=pass header.from=partner.example",
        "dkim=pass header.d=mail.partner.example; dmarc=none header.from=partner.example",
    ],
)
def test_an_aligned_result_of_our_own_server_proves_the_sender(results: str) -> None:
    assert decided(site("partner.example"), message("Boss <boss@partner.example>", results)) == "allow site"


@pytest.mark.parametrize(
    ("results", "server"),
    [
        ("", MX),
        ("dkim=fail header.d=partner.example", MX),
        ("dkim=pass header.d=evil.example", MX),
        ("dkim=pass header.d=evilpartner.example", MX),
        ("spf=pass smtp.helo=partner.example", MX),
        ("spf=pass smtp.mailfrom=x@evil.example", MX),
        ("dkim=pass header.d=partner.example header.d=evil.example", MX),
        ("arc=pass header.d=partner.example", MX),
        ("dkim=pass header.d=eve.partner.example; dmarc=fail header.from=partner.example", MX),
        (PROVED, "mx.evil.example"),
    ],
)
def test_anything_else_proves_nothing_and_changes_nothing(results: str, server: str) -> None:
    lists = site("partner.example")

    assert decided(lists, message("boss@partner.example", results, server)) == "allow-unproved site"


@pytest.mark.parametrize(
    "from_value",
    [
        "boss@partner.example, x@partner.example",
        "boss@partner.example\r\nFrom: x@partner.example",
        "group: boss@partner.example;",
        "boss@partner.example <",
        "<boss@partner.example> <x@evil.example>",
        '"boss <boss@partner.example>',
        "=?utf-8?q?boss=40partner=2Eexample?=",
        f"{'x' * 2000} <boss@partner.example>",
    ],
)
def test_a_from_field_that_can_be_read_in_two_ways_is_never_allowed(from_value: str) -> None:
    assert decided(site("partner.example"), message(from_value, PROVED)) == ""


@pytest.mark.parametrize(
    "from_value",
    [
        "boss@partner.example",
        "<boss@partner.example>",
        "The Boss <Boss@Partner.Example>",
        '"Boss, the <x@evil.example>" <boss@partner.example>',
        "boss@partner.example (x@evil.example)",
        "=?utf-8?q?x=40evil=2Eexample?=\r\n <boss@partner.example>",
        "x@evil.example <boss@partner.example>",
    ],
)
def test_the_address_counts_and_not_what_is_written_beside_it(from_value: str) -> None:
    assert (
        decided(site("boss@partner.example", block=("evil.example",)), message(from_value, PROVED)) == "allow site"
    )


@given(
    st.lists(
        st.sampled_from(['"', "\\", "(", ")", "<", ">", "@", ",", " ", "a", "b.example", "\r\n ", "é"]),
        max_size=30,
    )
)
def test_any_from_field_is_read(pieces: list[str]) -> None:
    field = HeaderField("from", "".join(pieces).encode())

    addresses, is_single = read_from([field])

    assert len(addresses) == 1 or not is_single
    assert all(re.fullmatch(r'(?:"(?s:.*)"|[^\s<>@]+)@[\w.-]+', address) for address in addresses)
    assert list(map(canonical_address, addresses)) == list(addresses)


@pytest.mark.parametrize(
    ("from_value", "addresses"),
    [
        ('"x', ()),
        ('"\\"' * 500, ()),
        ("a@b.example, <c@d.example>", ("c@d.example",)),
        ("a@b.example; c@d.example", ("a@b.example", "c@d.example")),
        ('"a b"@c.example', ('"a b"@c.example',)),
    ],
)
def test_addresses_are_found_in_fields_of_any_form(from_value: str, addresses: tuple[str, ...]) -> None:
    assert read_from([HeaderField("from", from_value.encode())])[0] == addresses


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_an_odd_spelling_escapes_no_entry(spelling: str) -> None:
    mail = message("somebody@else.example")

    assert decided(site(block=("ann@example.org",)), mail, sender=spelling) == "block site"


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_an_odd_spelling_of_a_recipient_is_no_way_around_his_list(spelling: str) -> None:
    lists = SenderLists(stored={USER: owner_list(block=("boss@partner.example",))}, reader=READER)

    assert decided(lists, message("boss@partner.example"), recipient=spelling) == "block user"


def test_a_sender_who_only_looks_like_an_allowed_one_is_another() -> None:
    mail = message("\N{KELVIN SIGN}urt@partner.example", PROVED)

    assert decided(site("kurt@partner.example"), mail) == ""


def test_a_header_too_long_to_be_read_is_never_allowed() -> None:
    filler = "X-Filler: x\r\n" * 24_000
    raw = message("boss@partner.example", PROVED).raw.replace(b"Subject", filler.encode() + b"Subject")

    assert decided(site("partner.example"), Message.parse(raw)) == ""


def test_a_login_proves_the_address_that_it_is() -> None:
    lists = site("partner.example")
    mail = message("boss@partner.example")

    assert decided(lists, mail, login="Boss@partner.example") == "allow site"
    assert decided(lists, mail, login="other@partner.example") == "allow-unproved site"
    assert decided(lists, mail, login="boss") == "allow-unproved site"


def test_a_network_is_proved_by_the_connection() -> None:
    lists = site("192.0.2.0/24", block=("198.51.100.7",))
    mail = message("anybody@x.example")

    assert decided(lists, mail, client="192.0.2.9") == "allow site"
    assert decided(lists, mail, client="::ffff:192.0.2.9") == "allow site"
    assert decided(lists, mail, client="198.51.100.7") == "block site"
    assert decided(lists, mail, client="203.0.113.1") == ""
    assert decided(lists, mail, client="unknown") == ""


DOMAINS = st.lists(st.sampled_from(["a", "b", "example", "org"]), min_size=2, max_size=4).map(".".join)


@given(DOMAINS, DOMAINS)
def test_domains_are_aligned_where_one_is_the_other_or_lies_below_it(one: str, other: str) -> None:
    one_labels, other_labels = one.split("."), other.split(".")
    common = min(len(one_labels), len(other_labels))

    assert is_aligned(one, other) == (one_labels[-common:] == other_labels[-common:])


@given(
    from_value=st.sampled_from(["{0}", "<{0}>", "Boss <{0}>", '"{0}" <x@evil.example>', "{0}, x@evil.example"]),
    header=st.lists(
        st.sampled_from(
            [
                "DKIM-Signature: v=1; d=partner.example; s=a; b=x",
                f"Authentication-Results: evil.example; {PROVED}",
                f'Authentication-Results: {MX}; spf=pass smtp.mailfrom="a {PROVED}"@evil.example',
                f"Authentication-Results: {MX}; dkim=pass header.d=evil.example ({PROVED})",
                f"Authentication-Results: {MX}; dkim=none; spf=softfail smtp.mailfrom=boss@partner.example",
                "Sender: boss@partner.example",
                "Return-Path: <boss@partner.example>",
            ]
        ),
        max_size=4,
    ),
    sender=st.sampled_from(["", "boss@partner.example", "x@evil.example"]),
)
def test_a_forged_sender_never_passes(from_value: str, header: list[str], sender: str) -> None:
    lines = [*header, RECEIVED, f"From: {from_value.format('boss@partner.example')}"]
    mail = Message.parse("\r\n".join([*lines, "", ""]).encode())
    lists = site("partner.example", "boss@partner.example")

    assert decided(lists, mail, sender, client="192.0.2.1", login="x@evil.example") in {
        "",
        "allow-unproved site",
    }


# A blocked sender.


def test_a_blocked_sender_needs_no_proof_and_may_be_that_of_the_envelope() -> None:
    lists = site(block=("evil.example",))

    assert decided(lists, message("x@evil.example")) == "block site"
    assert decided(lists, message("ok@x.example, x@evil.example")) == "block site"
    assert decided(lists, message("ok@x.example"), sender="X@Evil.Example") == "block site"
    assert decided(lists, message("evil.example <ok@x.example>")) == ""


# Whose entry decides.


def test_the_more_exact_entry_decides_and_of_equal_ones_that_which_blocks() -> None:
    lists = site("boss@partner.example", "other.example", block=("partner.example", "x@other.example"))

    assert decided(lists, message("boss@partner.example", PROVED)) == "allow site"
    assert decided(lists, message("boss@partner.example")) == "block site"  # who may be anybody
    assert decided(lists, message("x@other.example", "dkim=pass header.d=other.example")) == "block site"


def test_the_list_of_the_user_decides_before_that_of_the_site() -> None:
    stored = {
        USER: owner_list(("partner.example",), ("news.example",)),
        SITE: owner_list(("news.example",), ("partner.example",)),
    }
    lists = SenderLists(owner_list(), stored, READER)
    news = message("a@news.example", "dkim=pass header.d=news.example")

    assert decided(lists, message("a@partner.example", PROVED), recipient="Ann@Example.org") == "allow user"
    assert decided(lists, message("a@partner.example", PROVED), recipient="bob@example.org") == "block site"
    assert decided(lists, message("a@partner.example")) == "block site"
    assert decided(lists, news) == "block user"
    assert decided(lists, news, recipient="bob@example.org") == "allow site"
    assert decided(lists, news, recipient=SITE) == "allow site"


def test_the_list_is_that_of_the_user_who_gets_the_mail() -> None:
    def user_of(address: str) -> str:
        return "login" if address == "x@example.org" else address.lower().replace("+news", "")

    stored = {USER: owner_list(block=("partner.example",)), "login": owner_list(block=("partner.example",))}
    lists = SenderLists(owner_list(), stored, READER, user_of)

    assert decided(lists, message("a@partner.example"), recipient="Ann+news@example.org") == "block user"
    assert decided(lists, message("a@partner.example"), recipient="x@example.org") == ""


# What a decision does.


def test_a_list_decides_the_verdict_and_says_so() -> None:
    allow, block = (ListDecision(kind, "user") for kind in ListKind)
    unproved = ListDecision(ListKind.ALLOW, SITE, decides=False)

    assert allow.apply(Verdict.REJECT, "why") == (Verdict.HAM, "list=allow, owner=user")
    assert block.apply(Verdict.HAM, "why") == (Verdict.SPAM, "list=block, owner=user")
    assert unproved.apply(Verdict.SPAM, "why") == (Verdict.SPAM, "why; list=allow-unproved, owner=site")
