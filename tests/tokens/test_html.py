import html

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbstream.tokens.html import is_html, resolve_character_references, visible_text


def test_a_word_split_by_inline_tags_or_comments_is_one_word() -> None:
    assert visible_text("<b>v</b>ia<span></span>g<!-- x -->ra") == "viagra"


def test_blocks_separate_words() -> None:
    assert visible_text("<p>one</p><td>two<br>three").split() == ["one", "two", "three"]


def test_what_is_not_seen_is_left_out() -> None:
    source = "<title>t</title><style>p {x}</style><script>alert()</script>seen<!-- not seen"
    assert visible_text(source).split() == ["seen"]


def test_entities_are_resolved() -> None:
    assert visible_text("a&amp;b &#99;&nbsp;d") == "a&b c\xa0d"


def test_a_number_of_any_length_is_a_character() -> None:
    assert visible_text("&#" + "9" * 5000 + ";&#" + "0" * 5000 + "65;&amp;") == "\ufffdA&"


@given(
    st.lists(st.sampled_from(["&", "&#", "x", "6", "5", "128", "0", ";", "amp", "notin", "lt", "zz", "é", " "]))
)
def test_references_are_resolved_as_the_standard_library_does(pieces: list[str]) -> None:
    source = "".join(pieces)
    assert resolve_character_references(source) == html.unescape(source)
    assert resolve_character_references(source * 8) == html.unescape(source * 8)


def test_of_more_references_than_a_text_has_characters_the_first_are_resolved() -> None:
    source = "".join(f"&#{number};" for number in range(0x4E00, 0x4E00 + 20_000))

    resolved = resolve_character_references(source)

    assert resolved.startswith("\u4e00\u4e01")
    assert resolved.endswith(f"&#{0x4E00 + 19_999};")


@pytest.mark.parametrize("source", ["<", "<!--", "<script", "<a href='x>y", "</", "<p", "&#;", "<title>"])
def test_broken_markup_is_read_as_well(source: str) -> None:
    assert isinstance(visible_text(source), str)


def test_html_is_recognised_by_its_type_or_its_first_tag() -> None:
    assert is_html("text/html", "")
    assert is_html("text/plain", "\r\n <html><body>")
    assert not is_html("text/plain", "1 < 2")
