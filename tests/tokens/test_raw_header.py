import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbstream.mail.message import Message
from nbstream.tokens.header_tokens import raw_header_tokens
from nbstream.tokens.tokenizer import Tokenizer
from nbstream.tokens.tokens import MAX_TOKEN_BYTES, Tokens


def tokens_of(header: bytes, limit: int = 500) -> tuple[bytes, ...]:
    return raw_header_tokens(Message.parse(header + b"\r\n\r\ntext").fields, limit)


def test_each_word_has_the_marks_around_it() -> None:
    assert tokens_of(b'From: "Jane  Doe" <jane@example.org>') == (
        b'raw:^From:"',
        b'raw::"Jane__',
        b'raw:"Jane__',
        b'raw:__Doe"_<',
        b'raw:_Doe"_<',
        b'raw:"_<jane@',
        b"raw:_<jane@",
        b"raw:<jane@",
        b"raw:@example.",
        b"raw:.org>",
    )


def test_the_same_words_in_another_spelling_are_other_tokens() -> None:
    assert not set(tokens_of(b"Subject: Free-offer")) & set(tokens_of(b"subject: free offer"))


def test_a_fold_shows_in_the_white_space_after_it() -> None:
    assert b"raw:;~by_" in tokens_of(b"Received: from a;\r\n\tby b")
    assert b"raw:;_by_" in tokens_of(b"Received: from a;\r\n by b")


def test_a_long_word_is_cut_and_marks_are_at_most_three() -> None:
    assert tokens_of(b"X: ((((((abcdefghijklmnopq))))))") == (
        b"raw:^X:((",
        b"raw:(((abcdefghijkl",
        b"raw:((abcdefghijkl",
        b"raw:(abcdefghijkl",
    )


def test_no_token_reaches_into_the_next_field() -> None:
    assert tokens_of(b"A: b\r\nC: d") == (b"raw:^A:", b"raw::b", b"raw:^C:", b"raw::d")


@pytest.mark.parametrize("name", ["X-Spam-Status", "Authentication-Results", "X-Nbstream-Verdict", "Delivered-To"])
def test_what_another_filter_or_a_mailbox_wrote_is_not_read(name: str) -> None:
    assert tokens_of(f"{name}: yes".encode()) == ()


@given(st.lists(st.tuples(st.sampled_from(["Raw", "URL", "Body", "Subject"]), st.binary(max_size=40)), max_size=6))
def test_tokens_are_clean_and_the_groups_can_be_told_apart_again(fields: list[tuple[str, bytes]]) -> None:
    header = b"From: a@b.example\r\n" + b"".join(
        name.encode() + b": " + value.replace(b"\r", b"").replace(b"\n", b"") + b"\r\n" for name, value in fields
    )
    tokens = Tokenizer().tokenize(Message.parse(header + b"\r\nhello http://x.example/")).tokens
    for token in tokens.raw_header:
        assert token.startswith(b"raw:")
        assert len(token) <= MAX_TOKEN_BYTES
        assert token.decode("ascii").split() == [token.decode("ascii")]
        assert token.decode("ascii").isprintable()
    assert len(set(tokens.all)) == len(tokens.all)
    assert Tokens.from_all(tokens.all) == tokens
