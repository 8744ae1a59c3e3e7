"""Private tokens: keyed hashes that stay in the groups of their tokens, the same by both engines."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbstream.mail.message import Message
from nbstream.tokens.private_tokens import KEY_BYTES, PrivateTokenizer, TokenHasher, is_private
from nbstream.tokens.tokenizer import Tokenizer
from nbstream.tokens.tokens import Tokens
from tests.harness.generated_mail import generated_mail
from tests.harness.native import native_library

KEY = bytes(range(KEY_BYTES))

# 72 bytes are more than the tokenizer makes: seven and eight bytes behind a whole word are among them.
NAMES = st.builds(
    bytes.__add__,
    st.sampled_from((b"", b"subject:", b"body:", b"url:", b"url.path:", b"raw:", b"body", b"=")),
    st.binary(max_size=64).map(lambda text: text.replace(b"\n", b"") or b"x"),
)
TOKENS = st.builds(Tokens, *[st.lists(NAMES, max_size=40, unique=True)] * 3)


@pytest.fixture(scope="module")
def native() -> TokenHasher:
    return TokenHasher(KEY, native_library())


def test_a_name_never_changes() -> None:
    """Counts under other names are lost. The values are those of another implementation of SipHash-2-4-128."""
    hasher = TokenHasher(KEY)
    (name,) = hasher.hash_tokens(Tokens((), (b"body:lunch",))).all
    assert (name, hasher.fingerprint) == (b"body:#S5xFVazBNVNdt9fV", "d744dc88cc27b2c1")
    assert is_private(name)
    assert not is_private(b"body:lunch")


@given(TOKENS)
def test_both_engines_give_the_same_names(native: TokenHasher, tokens: Tokens) -> None:
    assert native.hash_tokens(tokens) == TokenHasher(KEY).hash_tokens(tokens)


@given(TOKENS)
def test_names_stay_in_the_groups_of_their_tokens(native: TokenHasher, tokens: Tokens) -> None:
    """A stored message has its tokens in one list: its groups are those that the words would have."""
    names = native.hash_tokens(tokens)
    assert names.sizes == tokens.sizes
    assert Tokens.from_all(names.all).sizes == Tokens.from_all(tokens.all).sizes


@given(TOKENS)
def test_names_are_equal_where_tokens_are_and_hold_nothing_of_them(native: TokenHasher, tokens: Tokens) -> None:
    names = native.hash_tokens(tokens).all
    assert len(set(names)) == len(set(tokens.all))
    assert all(is_private(name) for name in names)


def test_another_key_gives_other_names_and_another_fingerprint() -> None:
    tokens = Tokens((b"subject:lunch",), (b"body:lunch",))
    one, other = TokenHasher(KEY), TokenHasher(bytes(KEY_BYTES))
    assert not set(one.hash_tokens(tokens).all) & set(other.hash_tokens(tokens).all)
    assert one.fingerprint != other.fingerprint


def test_a_key_of_another_length_is_an_error_of_the_caller() -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        TokenHasher(b"short")


def test_a_message_at_hand_has_its_words_beside_the_names(native: TokenHasher) -> None:
    for _, raw in generated_mail():
        message = Message.parse(raw)
        taken, in_words = (
            PrivateTokenizer(Tokenizer(), native).tokenize(message),
            Tokenizer().tokenize(message),
        )
        assert taken == in_words._replace(tokens=native.hash_tokens(in_words.tokens))
        assert taken.tokens.words == in_words.tokens.all
        assert PrivateTokenizer(Tokenizer(), native).tokenize(message).tokens == taken.tokens
