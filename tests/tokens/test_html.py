import html
import json
import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbstream.tokens.html import resolve_character_references, visible_text
from tests.harness.corpora import archive, unpack


def test_a_word_split_by_inline_tags_or_comments_is_one_word() -> None:
    assert visible_text("<b>v</b>ia<span></span>g<!-- x -->ra") == "viagra"


def test_blocks_separate_words() -> None:
    assert visible_text("<p>one</p><td>two<br>three").split() == ["one", "two", "three"]


def test_what_is_not_seen_is_left_out() -> None:
    source = "<title>t</title><style>p {x}</style><script>alert()</script>seen<!-- not seen"
    assert visible_text(source).split() == ["seen"]


@pytest.mark.parametrize(
    "source",
    [
        "<svg><style><p>cheap pills now</p>",
        "<svg><script><p>cheap pills now</p>",
        "<math><style><div>cheap pills now",
        "<math><title/><p>cheap pills now",
        "<svg><style/></svg><p>cheap pills now",
        "<svg><text><![cdata[cheap pills now]]></text></svg>",
        "<svg/><p>cheap pills now",
    ],
)
def test_within_svg_and_mathml_no_element_hides_text(source: str) -> None:
    assert {"cheap", "pills"} <= set(visible_text(source).split())


def test_entities_are_resolved() -> None:
    assert visible_text("a&amp;b &#99;&nbsp;d") == "a&b c\xa0d"


@given(
    st.lists(st.sampled_from(["&", "&#", "x", "6", "5", "128", "0", ";", "amp", "notin", "lt", "zz", "é", " "]))
)
def test_references_are_resolved_as_the_standard_library_does(pieces: list[str]) -> None:
    source = "".join(pieces)
    assert resolve_character_references(source) == html.unescape(source)
    assert resolve_character_references(source * 8) == html.unescape(source * 8)


@pytest.mark.parametrize("source", ["<", "<!--", "<script", "<a href='x>y", "</", "<p", "&#;", "<title>"])
def test_broken_markup_is_read_as_well(source: str) -> None:
    assert isinstance(visible_text(source), str)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("v<wbr>i<mark>a</mark>g<sub></sub>r<x-y>a", "viagra"),  # only blocks separate words
        ("a<h1>b</h1>c<li>d", "a b c d"),
        ('a<img alt="<!--">b', "ab"),
        ("a<p title='<script>'>b", "a b"),
        ('a<i b=c">d', "ad"),  # a quote within a value is a character of it
        ('a<i =">d', "ad"),  # and so is one behind a name that begins with "="
        ('a<i b="c>d', "a"),  # a tag without an end shows nothing
        ("a<!-->b<!--->c<!-- x --!>d<!--x-->e", "abcde"),
        ("a<!x>b<?y>c</ z>d</>e<!doctype html>f", "abcdef"),
        ("a</", "a</"),
        ("a<style>b</styles>c</style d>e", "ae"),
        ("a<textarea><b>c</textarea>d", "a <b>c d"),
        ("a<plaintext><b></plaintext>", "a <b></plaintext>"),
        ("<script><!--<script></script>a</script>b", "b"),
        ("<script><!--<script>--></script>b", "b"),
        ("vi&nobreak;agra &newline;&hellip;", "vi\u2060agra \n\u2026"),  # names that have capitals
    ],
)
def test_markup_is_read_by_the_states_of_the_standard(source: str, text: str) -> None:
    assert visible_text(source) == text


@given(st.lists(st.sampled_from([*"<>!-/=\"' a", "<!--", "-->", "<b", "script", "</style", "<title>", "<p "])))
def test_what_is_shown_is_in_the_source(pieces: list[str]) -> None:
    source = "".join(pieces)
    rest = iter(source)
    assert all(character in rest for character in visible_text(source).replace(" ", ""))


def test_the_tokenizer_conforms_to_the_tests_of_html5lib(tmp_path: Path) -> None:
    # Sources are in lower case here, so names of references without a semicolon whose capitals matter are not told
    # apart: 58 of the tests are about these.
    folder = unpack(archive("html5lib-tokenizer.tar.xz"), tmp_path)
    differing = [case for case in _conformance_cases(folder) if _words(visible_text(case.source)) != case.words]
    assert len(differing) <= 58, differing[:20]
    assert all(case.source.startswith("&") for case in differing)


class _Case(NamedTuple):
    source: str
    words: str


_ELEMENTS = {"RCDATA state": "textarea", "RAWTEXT state": "xmp", "PLAINTEXT state": "plaintext"}


def _conformance_cases(folder: Path) -> Iterator[_Case]:
    for file in folder.rglob("*.test"):
        content = json.loads(file.read_text())
        for test in content.get("tests", content.get("xmlViolationTests")):
            for state in test.get("initialStates", ["Data state"]):
                if state not in {"Data state", *_ELEMENTS}:
                    continue
                element = test.get("lastStartTag", _ELEMENTS.get(state))
                start = "" if state == "Data state" else f"<{element}>"
                is_escaped = test.get("doubleEscaped", False)
                source = re.sub(r"\r\n?", "\n", _unescaped(test["input"], is_escaped)).lower()
                shown = [_unescaped(token[1], is_escaped) for token in test["output"] if token[0] == "Character"]
                yield _Case(start + source, _words("".join(shown)))


def _unescaped(text: str, is_escaped: bool) -> str:
    return re.sub(r"\\u([0-9A-Fa-f]{4})", lambda code: chr(int(code[1], 16)), text) if is_escaped else text


def _words(text: str) -> str:
    return "".join(re.findall(r"\w", unicodedata.normalize("NFKC", text).casefold()))
