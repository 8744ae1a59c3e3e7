"""Fingerprints: copies of one mailing share a band, and what several copies have is found by hashes alone."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nbstream.own_models.fingerprint import Fingerprint, pack, shared_tokens, unpack
from nbstream.tokens.private_tokens import TokenHasher
from nbstream.tokens.tokenizer import Tokens

SECRET, OTHER_SECRET = b"s" * 32, b"t" * 32
WORDS = [b"body:word%d" % number for number in range(400)]

bodies = st.lists(st.sampled_from(WORDS), min_size=1, max_size=80, unique=True)


def bands(body: list[bytes], key: str, secret: bytes = SECRET, head: tuple[bytes, ...] = ()) -> set[str]:
    return set(Fingerprint.of(key, Tokens(head, body), secret).bands)


@given(bodies, st.randoms())
@settings(max_examples=50)
def test_neither_order_nor_header_changes_the_bands_of_the_body(body: list[bytes], chance: random.Random) -> None:
    shuffled = chance.sample(body, len(body))
    assert bands(body, "a") == bands(shuffled, "a", head=(b"subject:x", b"to:ann"))


@given(bodies)
@settings(max_examples=50)
def test_a_message_always_shares_a_band_with_itself(body: list[bytes]) -> None:
    assert bands(body, "a") & bands(body[:1], "a")


def test_a_short_body_makes_no_copies() -> None:
    assert bands(WORDS[:9], "a").isdisjoint(bands(WORDS[:9], "b"))


def test_nearly_all_copies_share_a_band_and_nearly_no_other_messages_do() -> None:
    chance = random.Random(1)
    copies = others = 0
    for number in range(200):
        body = chance.sample(WORDS, 100)
        copy = [*body[4:], b"body:user%d" % number, b"url:unsubscribe%d" % number]
        copies += not bands(body, "a").isdisjoint(bands(copy, "b"))
        others += not bands(body, "a").isdisjoint(bands(chance.sample(WORDS, 100), "b"))
    assert copies >= 198
    assert others <= 2


def test_without_the_secret_nobody_knows_the_bands() -> None:
    assert bands(WORDS, "a").isdisjoint(bands(WORDS, "a", OTHER_SECRET))


def test_private_tokens_have_fingerprints_too() -> None:
    hasher = TokenHasher(b"k" * 32)
    ann = hasher.hash_tokens(Tokens((b"to:ann",), WORDS[:100]))
    bob = hasher.hash_tokens(Tokens((b"to:bob",), [*WORDS[:100], b"body:bob"]))
    first, second = Fingerprint.of("a", ann, SECRET), Fingerprint.of("b", bob, SECRET)
    assert set(first.bands) & set(second.bands)


@given(st.lists(bodies, min_size=1, max_size=6), st.integers(1, 7))
@settings(max_examples=50)
def test_shared_tokens_are_those_that_enough_copies_have(copies: list[list[bytes]], least: int) -> None:
    packed = [pack(Fingerprint.of("k", Tokens((), copy), SECRET).hashes) for copy in copies]

    shared = shared_tokens(WORDS, packed, least, SECRET)

    assert list(shared) == [word for word in WORDS if sum(word in copy for copy in copies) >= least]


@pytest.mark.parametrize("stored", [b"", b"abc"])
def test_what_is_no_copy_shares_nothing(stored: bytes) -> None:
    assert len(unpack(stored)) == 0
    assert shared_tokens(WORDS, [stored], 1, SECRET) == []
