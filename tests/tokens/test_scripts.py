import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbstream.tokens.scripts import SCRIPTS, detect_script


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Buy now", "latin"),
        ("1234 %% 5", "none"),
        ("\u201cQuoted\u201d \u2013 that\u2019s it\u2026 \u20ac5", "latin"),
        ("Für große Mühen", "marked"),
        ("Chào bạn, cảm ơn đã đặt hàng", "marked"),
        ("ðÒÉ\xd7ÅÔ ÄÒÕÚØÑ", "garbled"),
        ("Привет, друзья", "cyrillic"),
        ("Καλημέρα", "greek"),
        ("שלום", "hebrew"),
        ("مرحبا", "arabic"),
        ("नमस्ते दोस्त", "indic"),
        ("สวัสดี", "thai"),
        ("发票请联系", "han"),
        ("お支払い方法の確認", "kana"),
        ("안녕하세요", "hangul"),
        ("\U0001d405\U0001d42b\U0001d41e\U0001d41e \uff2e\uff2f\uff37", "styled"),
        ("Բարեւ", "other"),
    ],
)
def test_the_script_is_that_of_the_letters_beyond_ascii(text: str, name: str) -> None:
    assert detect_script(text) == name


def test_a_foreign_name_in_a_long_text_does_not_change_its_script() -> None:
    assert detect_script("Regards, Жан. " + "plain words " * 100) == "latin"


def test_markup_around_a_text_does_not_change_its_script() -> None:
    assert detect_script("<td style='color: red'>" * 20 + "Привет, друзья" * 4) == "cyrillic"


@given(st.text(max_size=200))
def test_any_text_has_one_of_the_scripts(text: str) -> None:
    assert detect_script(text) in SCRIPTS
