"""Signatures: the domain that signed and its selector become tokens, of four fields with the same syntax."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbstream.tokens.header_tokens import MAX_TAGS, signature_tokens
from tests.tokens.test_header_tokens import tokens_of

SIGNATURE = "v=1; a=rsa-sha256; c=relaxed/relaxed; d=mail.example.org; s=s2026; h=from:to; bh=YWJj=; b=ZGVm="
FIELDS = ("DKIM-Signature", "DomainKey-Signature", "ARC-Seal", "ARC-Message-Signature")


@pytest.mark.parametrize("field", FIELDS)
def test_the_domain_that_signed_and_its_selector_are_tokens(field: str) -> None:
    tokens = tokens_of("From: a@b.example", f"{field}: {SIGNATURE}")

    name = field.lower()
    assert {f"{name}:mail.example.org", f"{name}:example.org", f"{name}.selector:s2026"} == {
        token for token in tokens if token.startswith(name)
    }


def test_an_address_in_a_signature_does_not_hide_the_domain() -> None:
    # i= is the last tag with an "@" in real signatures; hundreds of them have none.
    tokens = signature_tokens("dkim-signature", "v=1; d=list.example.org; i=@user.example; s=x; b=YWJj")
    assert tokens == [
        "dkim-signature:list.example.org",
        "dkim-signature:example.org",
        "dkim-signature.selector:x",
    ]


@pytest.mark.parametrize(
    "value",
    [
        "d=example.org;s=x",
        "s=x;\r\n\t d = example.org ;",
        "d=exam\r\n ple.org; s=x",  # white space may stand anywhere in it
        ";;d=EXAMPLE.org.; ; s=X;d=other.example",
    ],
)
def test_white_space_order_and_case_make_no_difference(value: str) -> None:
    assert signature_tokens("dkim-signature", value) == [
        "dkim-signature:example.org",
        "dkim-signature.selector:x",
    ]


@pytest.mark.parametrize(
    "value", ["", "v=1", "d", "d=", "d=; s=", "d=a b@c; s=<>", "D=example.org", "x=1;" * MAX_TAGS + "d=a.example"]
)
def test_what_is_no_name_gives_no_token(value: str) -> None:
    assert signature_tokens("dkim-signature", value) == []


@given(st.text(max_size=200))
def test_any_text_is_read(value: str) -> None:
    assert len(signature_tokens("dkim-signature", value)) <= 6


@pytest.mark.parametrize("field", ["ARC-Seal", "ARC-Message-Signature"])
def test_what_a_server_adds_after_the_check_leaves_the_layout_as_it_is(field: str) -> None:
    message = ("From: a@b.example", "Subject: s")
    assert tokens_of(f"{field}: i=1; cv=pass; d=mx.example.org; s=x", *message) - tokens_of(*message) == {
        f"{field.lower()}:mx.example.org",
        f"{field.lower()}:example.org",
        f"{field.lower()}.selector:x",
    }


def test_results_of_others_stay_unread() -> None:
    message = ("From: a@b.example",)
    forged = "ARC-Authentication-Results: i=1; mx.example.org; dkim=pass header.d=example.org; d=x.example; s=x"
    assert tokens_of(forged, *message) == tokens_of(*message)
