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


# Characters that are not seen: Default_Ignorable_Code_Point
# (https://www.unicode.org/Public/14.0.0/ucd/DerivedCoreProperties.txt).
_IGNORABLE = (
    "AD,34F,61C,115F-1160,17B4-17B5,180B-180F,200B-200F,202A-202E,2060-206F,3164,FE00-FE0F,FEFF,FFA0,FFF0-FFF8,"
    "1BCA0-1BCA3,1D173-1D17A,E0000-E0FFF"
)
# The marks of no script of their own. Those that normalisation has not united with a letter decorate it.
_DECORATIONS = "300-34E,350-36F,483-489,1AB0-1ACE,1DC0-1DFF,20D0-20F0,FE20-FE2F"
# The marks that belong to words, of the basic plane: vowel signs, viramas, points. Categories Mn, Mc and Me
# without the characters above (https://www.unicode.org/Public/14.0.0/ucd/extracted/DerivedGeneralCategory.txt).
_MARKS = (
    "591-5BD,5BF,5C1-5C2,5C4-5C5,5C7,610-61A,64B-65F,670,6D6-6DC,6DF-6E4,6E7-6E8,6EA-6ED,711,730-74A,7A6-7B0,7EB-7F3,"
    "7FD,816-819,81B-823,825-827,829-82D,859-85B,898-89F,8CA-8E1,8E3-903,93A-93C,93E-94F,951-957,962-963,981-983,9BC,"
    "9BE-9C4,9C7-9C8,9CB-9CD,9D7,9E2-9E3,9FE,A01-A03,A3C,A3E-A42,A47-A48,A4B-A4D,A51,A70-A71,A75,A81-A83,ABC,ABE-AC5,"
    "AC7-AC9,ACB-ACD,AE2-AE3,AFA-AFF,B01-B03,B3C,B3E-B44,B47-B48,B4B-B4D,B55-B57,B62-B63,B82,BBE-BC2,BC6-BC8,BCA-BCD,"
    "BD7,C00-C04,C3C,C3E-C44,C46-C48,C4A-C4D,C55-C56,C62-C63,C81-C83,CBC,CBE-CC4,CC6-CC8,CCA-CCD,CD5-CD6,CE2-CE3,"
    "D00-D03,D3B-D3C,D3E-D44,D46-D48,D4A-D4D,D57,D62-D63,D81-D83,DCA,DCF-DD4,DD6,DD8-DDF,DF2-DF3,E31,E34-E3A,E47-E4E,"
    "EB1,EB4-EBC,EC8-ECD,F18-F19,F35,F37,F39,F3E-F3F,F71-F84,F86-F87,F8D-F97,F99-FBC,FC6,102B-103E,1056-1059,"
    "105E-1060,1062-1064,1067-106D,1071-1074,1082-108D,108F,109A-109D,135D-135F,1712-1715,1732-1734,1752-1753,"
    "1772-1773,17B6-17D3,17DD,1885-1886,18A9,1920-192B,1930-193B,1A17-1A1B,1A55-1A5E,1A60-1A7C,1A7F,1B00-1B04,"
    "1B34-1B44,1B6B-1B73,1B80-1B82,1BA1-1BAD,1BE6-1BF3,1C24-1C37,1CD0-1CD2,1CD4-1CE8,1CED,1CF4,1CF7-1CF9,2CEF-2CF1,"
    "2D7F,2DE0-2DFF,302A-302F,3099-309A,A66F-A672,A674-A67D,A69E-A69F,A6F0-A6F1,A802,A806,A80B,A823-A827,A82C,"
    "A880-A881,A8B4-A8C5,A8E0-A8F1,A8FF,A926-A92D,A947-A953,A980-A983,A9B3-A9C0,A9E5,AA29-AA36,AA43,AA4C-AA4D,"
    "AA7B-AA7D,AAB0,AAB2-AAB4,AAB7-AAB8,AABE-AABF,AAC1,AAEB-AAEF,AAF5-AAF6,ABE3-ABEA,ABEC-ABED,FB1E"
)


def _ranges(text: str) -> str:
    """Return the inside of the brackets of a regular expression for hexadecimal ranges."""
    return re.sub(r"[0-9A-F]+", lambda number: f"\\U{int(number[0], 16):08x}", text).replace(",", "")


# Finds what may be a later character: in the basic plane by a table, and beyond it by one range, since a hundred
# ranges would be compared with each character of Chinese text.
_CANDIDATE = re.compile(rf"[{_ranges(_LATER_PLANE_0)}\U00010000-\U0010ffff]")


MARKS = _ranges(_MARKS)
"""The marks that belong to words, as the inside of the brackets of a regular expression."""
_IGNORABLE_RUN = re.compile(f"[{_ranges(_IGNORABLE)}]+")
_IGNORABLE_IN_WORD = re.compile(f"[a-z0-9][{_ranges(_IGNORABLE)}]+[a-z0-9]", re.IGNORECASE | re.ASCII)
_DECORATION_RUN = re.compile(f"[{_ranges(_DECORATIONS)}]+")


def without_ignorable(text: str) -> str:
    """Return ``text`` without the characters that are not seen: they do not end a word."""
    return text if text.isascii() else _IGNORABLE_RUN.sub("", text)


def hides_characters(text: str) -> bool:
    """Return whether a character that is not seen stands between two letters or digits of ASCII.

    Other scripts need some of these characters in their words.
    """
    return not text.isascii() and _IGNORABLE_IN_WORD.search(text) is not None


def without_decorations(folded: str) -> str:
    """Return normalised text without the general marks that no letter has united with, such as strokes."""
    return folded if folded.isascii() else _DECORATION_RUN.sub("", folded)


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
