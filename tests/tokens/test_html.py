import pytest

from nbstream.tokens.html import is_html, visible_text


def test_a_word_split_by_inline_tags_or_comments_is_one_word() -> None:
    assert visible_text("<b>v</b>ia<span></span>g<!-- x -->ra") == "viagra"


def test_blocks_separate_words() -> None:
    assert visible_text("<p>one</p><td>two<br>three").split() == ["one", "two", "three"]


def test_what_is_not_seen_is_left_out() -> None:
    source = "<title>t</title><style>p {x}</style><script>alert()</script>seen<!-- not seen"
    assert visible_text(source).split() == ["seen"]


def test_entities_are_resolved() -> None:
    assert visible_text("a&amp;b &#99;&nbsp;d") == "a&b c\xa0d"


def test_an_entity_too_large_to_read_is_left_as_it_is() -> None:
    source = "&#" + "9" * 5000 + ";"
    assert visible_text(source) == source


@pytest.mark.parametrize("source", ["<", "<!--", "<script", "<a href='x>y", "</", "<p", "&#;", "<title>"])
def test_broken_markup_is_read_as_well(source: str) -> None:
    assert isinstance(visible_text(source), str)


def test_html_is_recognised_by_its_type_or_its_first_tag() -> None:
    assert is_html("text/html", "")
    assert is_html("text/plain", "\r\n <html><body>")
    assert not is_html("text/plain", "1 < 2")
