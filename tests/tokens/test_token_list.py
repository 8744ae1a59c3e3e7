"""The tokens of a message: names one by one and one byte string say the same."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nbstream.tokens.tokens import TokenList, Tokens

names_of_tokens = st.lists(st.binary(min_size=1).map(lambda name: name.replace(b"\n", b"_")))


@given(names_of_tokens)
def test_both_forms_are_the_same_tokens(names: list[bytes]) -> None:
    named, joined = TokenList(names), TokenList.from_joined(b"\n".join(names))
    assert named == joined
    assert hash(named) == hash(joined)
    assert (len(named), len(joined)) == (len(names), len(names))
    assert tuple(joined) == joined.names == tuple(names) == named
    assert named.joined == joined.joined


@given(names_of_tokens, names_of_tokens)
def test_lists_are_equal_where_their_names_are(names: list[bytes], others: list[bytes]) -> None:
    assert (TokenList(names) == TokenList.from_joined(b"\n".join(others))) is (names == others)
    assert (TokenList(names) == tuple(others)) is (names == others)


@given(names_of_tokens)
def test_a_list_reads_as_a_tuple_does(names: list[bytes]) -> None:
    tokens = TokenList.from_joined(b"\n".join(names))
    assert tokens[1:] == tuple(names[1:])
    assert all(name in tokens for name in names)
    assert [tokens[i] for i in range(len(tokens))] == names
    assert repr(tokens) == repr(tuple(names))


@given(names_of_tokens, names_of_tokens, names_of_tokens)
def test_groups_are_found_again_by_their_sizes(
    head: list[bytes], body: list[bytes], raw_header: list[bytes]
) -> None:
    tokens = Tokens(head, body, raw_header)
    again = Tokens.from_joined(tokens.all.joined, tokens.sizes)
    assert again == tokens
    assert hash(again) == hash(tokens)
    assert again.groups == (tuple(head), tuple(body), tuple(raw_header))
    assert (again.head, again.body, again.raw_header) == again.groups
