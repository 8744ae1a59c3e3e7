"""The script in which a text is written, by its letters beyond ASCII.

Rules: the text is read once; at most ``MAX_LETTERS`` letters are looked up.
"""

from __future__ import annotations

from bisect import bisect
from collections import Counter
from itertools import islice

from nbstream.tokens.unicode import only_known

MAX_LETTERS = 300

# The first character of each range and the script of its letters; a range ends where the next one begins.
_SCRIPT_RANGES: tuple[tuple[int, str], ...] = (
    (0x80, "marked"), (0x250, "other"), (0x370, "greek"), (0x400, "cyrillic"), (0x530, "other"),
    (0x590, "hebrew"), (0x600, "arabic"), (0x780, "other"), (0x900, "indic"), (0xE00, "thai"), (0xF00, "other"),
    (0x1100, "hangul"), (0x1200, "other"), (0x1E00, "marked"), (0x1F00, "greek"), (0x2000, "other"),
    (0x2100, "styled"), (0x2190, "other"), (0x2E80, "han"), (0x3040, "kana"), (0x3100, "han"),
    (0x3130, "hangul"), (0x3190, "han"), (0xA000, "other"), (0xAC00, "hangul"), (0xD800, "other"),
    (0xF900, "han"), (0xFB00, "styled"), (0xFB13, "other"), (0xFB1D, "hebrew"), (0xFB50, "arabic"),
    (0xFE00, "other"), (0xFE70, "arabic"), (0xFF00, "styled"), (0xFF66, "kana"), (0xFFA0, "hangul"),
    (0xFFE0, "other"), (0x1D400, "styled"), (0x1D800, "other"), (0x20000, "han"), (0x32000, "other"),
)  # fmt: skip  # one row a line would fill the page
_STARTS = tuple(start for start, _ in _SCRIPT_RANGES)
_ASCII = bytes(range(128))
_NOT_ASCII_LETTERS = bytes(c for c in range(256) if not (c < 128 and chr(c).isalpha()))

SCRIPTS: tuple[str, ...] = (
    *("latin", "garbled"),
    *(name for name in dict.fromkeys(name for _, name in _SCRIPT_RANGES) if name != "other"),
    *("none", "other"),
)
"""The values that ``detect_script`` returns."""


def detect_script(text: str) -> str:
    """Return the script of most letters beyond ASCII.

    It is "latin" where fewer than 1 in 200 characters are letters beyond ASCII. "marked" is Latin with marks,
    "styled" are compatibility forms of Latin letters, and "garbled" is Latin text with more characters beyond
    ASCII than plain letters: another script, in bytes whose charset is not declared.
    """
    encoded = text.encode("utf-8", "ignore")
    foreign = only_known(encoded.translate(None, _ASCII).decode("utf-8"))
    plain = len(encoded.translate(None, _NOT_ASCII_LETTERS))
    letters = islice(filter(str.isalpha, foreign), MAX_LETTERS)
    scripts = Counter(_SCRIPT_RANGES[bisect(_STARTS, ord(letter)) - 1][1] for letter in letters)
    if not scripts or scripts.total() * 200 < len(text):
        return "latin" if plain or scripts else "none"
    if scripts["kana"] * 10 >= scripts.total():
        return "kana"  # Japanese, even where most of its letters are Chinese characters
    most = scripts.most_common(1)[0][0]
    return "garbled" if most == "marked" and len(foreign) > plain else most
