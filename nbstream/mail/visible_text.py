"""Text that others wrote, such as a subject or an address, made safe to look at.

Rules: what cannot be seen is made visible, so that a text neither hides anything nor changes the order in which
the words around it are read: control characters, characters without a glyph of their own, letters that are blank,
and those that change the direction of the text (Unicode Technical Report 36). Escaping for HTML is not done here.
"""

from __future__ import annotations

import unicodedata

_HIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Cn", "Co", "Zl", "Zp"})
_BLANK_LETTERS = frozenset("\u115f\u1160\u2800\u3164\uffa0")  # fillers of Hangul, and the empty Braille cell
_CONTROL_PICTURES = 0x2400  # the picture of the control character 0, and so on up to 31
_MAX_MARKS = 4  # combining marks on one letter; more of them paint over the lines around


def visible_text(text: str, max_length: int | None = None) -> str:
    """Return ``text`` with hidden characters made visible, of at most ``max_length`` characters before that."""
    shown: list[str] = []
    marks = 0
    for character in text if max_length is None else text[:max_length]:
        category = unicodedata.category(character)
        marks = marks + 1 if category in {"Mn", "Me"} else 0
        if marks > _MAX_MARKS:
            continue
        is_hidden = category in _HIDDEN_CATEGORIES or character in _BLANK_LETTERS
        shown.append(_picture(character) if is_hidden else character)
    return "".join(shown)


def is_blank(text: str) -> bool:
    """Return whether nothing of a text is seen: it is white space, and marks without a letter."""
    return all(character.isspace() or unicodedata.category(character) == "Mn" for character in text)


def _picture(character: str) -> str:
    number = ord(character)
    if number in {0x09, 0x0A, 0x0D}:
        return " "
    return chr(_CONTROL_PICTURES + number) if number < 0x20 else f"[U+{number:04X}]"
