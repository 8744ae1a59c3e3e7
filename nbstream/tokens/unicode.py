"""The characters that tokens are made of: those of Unicode 14.0, whatever version the interpreter knows.

Rules: Python 3.11 knows Unicode 14.0 and later versions know more. A character that was assigned later may be a
letter there and none here. Tokens have to be the same on every interpreter, so later characters are replaced by
one that is no letter, digit or space in any version.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

REPLACEMENT = "\ufffd"
"""The character that replaces each later one."""

# Five letters of which later versions say that they have no case (str.islower): then what was assigned after
# Unicode 14.0, up to Unicode 18.0 (https://www.unicode.org/Public/18.0.0/ucd/DerivedAge.txt).
_LATER_PLANE_0 = (
    "10FC,A7F2-A7F4,AB69,"
    "558,58B-58C,5C8-5C9,88F,897,B53-B54,C5C,CDC,CF3,ECE,1ACF-1AF0,1B4E-1B4F,1B7F,1C89-1C8A,208F,209D-209F,"
    "20C1-20C4,2427-2429,2B96,2E60-2E63,2FFC-2FFF,31E4-31E5,31EF,A7CB-A7CF,A7D2,A7D4,A7DA-A7DD,A7E2,A7F1,"
    "AB6C-AB6D,FBC3-FBD2,FD90-FD91,FDC8-FDCE"
)
_LATER_BEYOND = (
    "105C0-105F3,107BB-107BF,10940-10959,10D40-10D65,10D69-10D85,10D8E-10D8F,10EC2-10EC7,10EC9-10EEE,10EF0-10EFF,"
    "1123F-11241,11380-11389,1138B,1138E,11390-113B5,113B7-113C0,113C2,113C5,113C7-113CA,113CC-113D5,113D7-113D8,"
    "113E1-113E2,116D0-116E3,11B00-11B0A,11B60-11B67,11BC0-11BE1,11BF0-11BF9,11DB0-11DDB,11DE0-11DE9,11DF0-11DF1,"
    "11F00-11F10,11F12-11F3A,11F3E-11F5A,1246F,12475-1247F,12550-12686,1342F,13439-13455,13460-143FA,16100-16139,"
    "16D40-16D79,16EA0-16EB8,16EBB-16ED3,16FF2-16FF6,187F8-187FF,18CD6-18CDA,18CFF,18D09-18D20,18D80-18DF2,"
    "18E00-19191,191A0-191D2,1B123-1B128,1B132,1B155,1B168,1CC00-1CCFC,1CD00-1CEB3,1CEBA-1CED0,1CED2-1CED4,"
    "1CEDD-1CEFD,1D127-1D128,1D1EB-1D1FF,1D250-1D281,1D2C0-1D2D3,1D6A6,1DB00-1DB1C,1DF1F-1DF81,1DF90-1DF96,"
    "1DFCD-1DFFF,1E030-1E06D,1E08F,1E4D0-1E4F9,1E5D0-1E5FA,1E5FF,1E6C0-1E6DE,1E6E0-1E6F5,1E6FE-1E6FF,1F1AE,"
    "1F6D8-1F6D9,1F6DC,1F774-1F77F,1F7D9-1F7DB,1F7F1-1F7FF,1F8B2-1F8BB,1F8C0-1F8C1,1F8D0-1F8D8,1FA54-1FA57,"
    "1FA75-1FA77,1FA87-1FA8F,1FAAD-1FAAF,1FABB-1FABF,1FAC6,1FAC8,1FACC-1FACF,1FADA-1FADD,1FADF,1FAE8-1FAEB,1FAEF,"
    "1FAF7-1FAFA,1FBCB-1FBEF,1FBFA,2B739-2B73F,2B81E,2CEA2-2CEAD,2EBF0-2EE5D,31350-33479,3D000-3FC3F"
)


def _ranges(text: str) -> str:
    """Return the inside of the brackets of a regular expression for hexadecimal ranges."""
    return re.sub(r"[0-9A-F]+", lambda number: f"\\U{int(number[0], 16):08x}", text).replace(",", "")


# Finds what may be a later character: in the basic plane by a table, and beyond it by one range, since a hundred
# ranges would be compared with each character of Chinese text.
_CANDIDATE = re.compile(rf"[{_ranges(_LATER_PLANE_0)}\U00010000-\U0010ffff]")


@cache
def _replacements() -> Mapping[str, str]:
    """Return the replacement of each later character; they are made when the first candidate comes: 2 MB."""
    replacements: dict[str, str] = {}
    for bounds in f"{_LATER_PLANE_0},{_LATER_BEYOND}".split(","):
        first, _, last = bounds.partition("-")
        replacements |= dict.fromkeys(map(chr, range(int(first, 16), int(last or first, 16) + 1)), REPLACEMENT)
    return replacements


def only_known(text: str) -> str:
    """Return ``text`` with ``REPLACEMENT`` for each character that was assigned after Unicode 14.0."""
    if text.isascii() or not _CANDIDATE.search(text):
        return text
    replacements = _replacements()
    return _CANDIDATE.sub(lambda candidate: replacements.get(candidate[0], candidate[0]), text)
