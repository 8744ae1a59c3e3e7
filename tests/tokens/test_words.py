from nbstream.tokens.words import LONGEST, shape, words


def test_words_are_distinct_folded_and_in_order_of_appearance() -> None:
    assert words("Buy NOW, buy now: later") == ["buy", "now", "later"]


def test_compatibility_forms_are_unified() -> None:
    assert words("\uff26\uff32\uff25\uff25 \ufb01nance") == words("free finance")


def test_marks_inside_a_word_stay_and_those_around_it_go() -> None:
    assert words("(don't) 'user@host.example'.") == ["don't", "user@host.example"]


def test_prices_and_shouting_are_words() -> None:
    assert words("$1.50 !!! free! 50%") == ["$1.50", "!!!", "free!", "50%"]


def test_a_long_word_is_summarised_and_its_short_pieces_kept() -> None:
    found = words("x" * 100 + " " + "a" * 30 + "-offer")
    assert all(len(word) <= LONGEST for word in found)
    assert "offer" in found
    assert len(found) == 3


def test_scripts_without_spaces_give_pairs_of_characters() -> None:
    assert words("发票优惠") == ["发票", "票优", "优惠"]
    assert words("票") == ["票"]


def test_shape_tells_kinds_of_characters_and_not_the_characters() -> None:
    assert shape("000601c7$8A2f@Ab") == "9a9$9A9a@Aa"
