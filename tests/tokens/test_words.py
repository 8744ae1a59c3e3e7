import random
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

import nbstream.tokens.words as module
from nbstream.tokens.words import (
    _LONGEST_STRETCH_CHARACTERS,
    MAX_FOLDED_CHARACTERS,
    MAX_WORD_CHARACTERS,
    WordAllowance,
    _foldable_stretches,
    distinct_words,
    distinct_words_utf8,
    spread_choice,
    text_shape,
)


def test_words_are_distinct_folded_and_in_order_of_appearance() -> None:
    assert distinct_words("Buy NOW, buy now: later") == ["buy", "now", "later"]


def test_compatibility_forms_are_unified() -> None:
    assert distinct_words("\uff26\uff32\uff25\uff25 \ufb01nance") == distinct_words("free finance")


def test_marks_inside_a_word_stay_and_those_around_it_go() -> None:
    assert distinct_words("(don't) 'user@host.example'.") == ["don't", "user@host.example"]


def test_prices_and_shouting_are_words() -> None:
    assert distinct_words("$1.50 !!! free! 50%") == ["$1.50", "!!!", "free!", "50%"]


def test_a_long_word_is_summarised_and_its_short_pieces_kept() -> None:
    words = distinct_words("x" * 100 + " " + "a" * 30 + "-offer")
    assert all(len(word) <= MAX_WORD_CHARACTERS for word in words)
    assert "offer" in words
    assert len(words) == 3


def test_scripts_without_spaces_give_pairs_of_characters() -> None:
    assert distinct_words("发票优惠") == ["发票", "票优", "优惠"]
    assert distinct_words("票") == ["票"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("vi\u200bag\u00adra vi\u2062ag\ufe0fra v\u034fia\u180egra", ["viagra"]),  # characters that are not seen
        ("v\u0336i\u0336agra", ["viagra"]),  # strokes through letters
        ("\u0130stanbul caf\u0065\u0301", ["istanbul", "caf\u00e9"]),
        (
            "\u092a\u0941\u0930\u0938\u094d\u0915\u093e\u0930!",
            ["\u092a\u0941\u0930\u0938\u094d\u0915\u093e\u0930!"],
        ),
        ("\u05e9\u05b8\u05c1\u05dc\u05d5\u05b9\u05dd", ["\u05e9\u05b8\u05c1\u05dc\u05d5\u05b9\u05dd"]),
    ],
)
def test_words_are_letters_with_their_marks_and_without_what_is_not_seen(text: str, words: list[str]) -> None:
    assert distinct_words(text) == words


@pytest.mark.parametrize(
    "word", ["\u0e23\u0e32\u0e07\u0e27\u0e31\u0e25", "\u179f\u17d2\u179a\u17bc\u179c", "\u1019\u103c\u1014\u103a"]
)
def test_thai_khmer_and_myanmar_give_pairs_as_chinese_does(word: str) -> None:
    assert distinct_words(word) == [word[start : start + 2] for start in range(len(word) - 1)]


def test_a_shape_has_the_kinds_of_characters_and_not_the_characters() -> None:
    assert text_shape("000601c7$8A2f@Ab") == "9a9$9A9a@Aa"


@pytest.mark.parametrize(
    "alphabet",
    [
        "か\u3099は\u309a",  # letters and voice marks that unite
        "か\uff76\uff9e\uff8a\uff9f",  # the same at half width
        "か\u1100\u1161\u11a8\uac00",  # parts of Hangul syllables
        "か\u3131\u314f\uffa1\uffc2",  # those that are compatible with such parts
        "か\u09c7\u09be\u0b47\u0b56",  # vowel signs in two parts
        "かe\u0301\u0323\u1e97\u01f0",  # accents that change places
        "か\ufdfa\ufb1e\u05d9\u05b4",  # a word in one character, and a mark of its own
        "かはの\u2121\u338f",  # signs that are compatible with words
    ],
)
def test_a_text_too_long_to_fold_at_once_has_the_words_it_would_have(
    alphabet: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_STRETCH_CHARACTERS", 5)  # many ends of stretches in a short text
    draw = random.Random(alphabet)
    text = "か" + "".join(draw.choices(alphabet, k=5_000))

    assert distinct_words(text) == distinct_words(unicodedata.normalize("NFKC", text).casefold())


@pytest.mark.parametrize(
    "text", ["one two three two one four", "日本語 one two 発票優惠", "x" * 99 + " one two three"]
)
def test_within_a_limit_words_are_chosen_from_all_in_order(text: str) -> None:
    all_words = [word.encode() for word in distinct_words(text)]
    for limit in range(8):
        words = list(distinct_words_utf8(text, limit))
        assert words == [word for word in all_words if word in words]
        assert len(words) == min(limit, len(all_words))


def test_a_choice_has_both_ends_and_others_at_equal_distances() -> None:
    items = [b"%d" % n for n in range(1000)]
    chosen = [int(item) for item in spread_choice(items, 40)]
    assert chosen[:10] == list(range(10))
    assert chosen[-10:] == list(range(990, 1000))
    assert chosen[10:30] == list(range(10, 990, 49))
    assert spread_choice(items, 1000) == items


def test_of_more_words_than_are_read_the_last_ones_are_among_them() -> None:
    for padding in (["word{n}"], ["長い文章は{n}"], ["word{n}", "x" * 40 + "{n}"]):
        text = " ".join(form.format(n=n) for n in range(5_000) for form in padding)
        words = distinct_words_utf8(f"first {text} very last", 100)
        assert {b"first", b"very", b"last"} <= set(words)
        assert len(words) <= 100


def test_behind_the_limit_of_folding_a_text_is_read_in_its_own_forms() -> None:
    long = "\ufdfa" * (MAX_FOLDED_CHARACTERS // 18 + 200)

    words = distinct_words(f"{long} \uff26\uff35\uff2c\uff2c Stra\xdfe")

    assert words[-2:] == ["\uff46\uff55\uff4c\uff4c", "stra\xdfe"]
    assert distinct_words("\ufdfa \uff26\uff35\uff2c\uff2c Stra\xdfe")[-2:] == ["full", "strasse"]


FOLDED = "aB \n\u0301\u0327\uac00\u1100\u1161\u0915\u093f\xbd\ufdfa\uff76\uff9e\u4e00\xb7.-"


@given(st.text(FOLDED, max_size=900))
def test_a_text_folded_in_stretches_has_the_words_of_the_text_folded_as_a_whole(text: str) -> None:
    stretches = list(_foldable_stretches(text))
    assert "".join(stretches) == text
    if all(len(stretch) < _LONGEST_STRETCH_CHARACTERS for stretch in stretches):
        assert "".join(map(WordAllowance().fold, stretches)) == unicodedata.normalize("NFKC", text).casefold()
