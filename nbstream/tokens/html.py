"""Turns HTML into the text that a reader sees, in three passes that each read every character once.

Rules: a pattern here consumes what it has scanned, whatever follows, so no input costs more than its length. No
tree is built, because the HTML parsing algorithm is quadratic in the depth of the nesting: a parser that follows
it needed 325 s for 1.5 MB of ``<div>``. Text on both sides of an inline tag is joined ("V<b></b>ia" is one word);
text on both sides of another tag is separated.
"""

from __future__ import annotations

import html
import re
import sys
from collections.abc import Iterable
from functools import lru_cache
from html.entities import html5

from nbstream.tokens.unicode import REPLACEMENT

# The text is in lower case: these patterns are faster than patterns that ignore case.
_INVISIBLE = re.compile(
    r"<(?:!--.*?(?:-->|\Z)"
    r"|(?:script\b.*?(?:</script|\Z)|style\b.*?(?:</style|\Z)|title\b.*?(?:</title|\Z))[^>]*>?"
    r"|/?(?:a|abbr|b|big|em|font|i|ins|s|small|span|strong|tt|u)\b[^>]*>?)",
    re.DOTALL,
)
_TAG = re.compile(r"<[/!?a-z][^>]*>?")


def _by_first_letter(names: Iterable[str]) -> str:
    """Return a pattern for the longest of ``names`` that comes next."""
    by_first: dict[str, list[str]] = {}
    for name in sorted(names, key=len, reverse=True):
        by_first.setdefault(name[0], []).append(name[1:])
    return "|".join(f"{first}(?:{'|'.join(rests)})" for first, rests in by_first.items())


# A name without a semicolon is one of the hundred that older versions of HTML knew.
_LEGACY_NAMES = _by_first_letter(name for name in html5 if not name.endswith(";"))
_LEGACY_REFERENCE = re.compile(f"&({_LEGACY_NAMES})")
_REFERENCE = re.compile(rf"(&(?:#(?:[0-9]+|[xX][0-9a-fA-F]+);?|[A-Za-z][A-Za-z0-9]{{1,31}};|(?:{_LEGACY_NAMES})))")
MAX_REFERENCES = 5_000
"""How many different character references of a message are resolved, give or take a thousand."""
_SAMPLE_PIECES = 1000
_MAX_DIGITS = 8  # more make a number that is no character
_HTML_START = re.compile(r"<(?:!doctype html|html|body|table)\b")


def is_html(content_type: str, text: str) -> bool:
    """Return whether a text part (lower case) is HTML: by its type, or because it begins like HTML."""
    return content_type == "text/html" or _HTML_START.match(text[:200].lstrip()) is not None


def visible_text(source: str, references: References | None = None) -> str:
    """Return the text of an HTML source (lower case) without tags, comments, scripts and styles."""
    return (references or References()).resolve(_TAG.sub(" ", _INVISIBLE.sub("", source)))


class References:
    """The character references of one message, each of which is resolved once.

    At most ``MAX_REFERENCES`` different ones are resolved: HTML has 2,125 names, and no text has more characters.
    """

    def __init__(self) -> None:
        self._resolved: dict[str, str] = {}

    def resolve(self, text: str) -> str:
        """Return ``text`` with its character references resolved, as ``resolve_character_references`` does."""
        sample = text.split("&", _SAMPLE_PIECES)[1:-1]
        if len(set(sample)) * 4 >= len(sample):
            return self._resolve_all(text) if "&" in text else text
        # The text between "&" and "&" repeats itself.
        start, *pieces = text.split("&")
        resolved = {piece: self._resolve_all("&" + piece) for piece in dict.fromkeys(pieces)}
        return start + "".join(map(resolved.__getitem__, pieces))

    def _resolve_all(self, text: str) -> str:
        parts = _REFERENCE.split(text)  # every second part is a reference
        for start in range(1, len(parts), 2 * _SAMPLE_PIECES):
            references = parts[start : start + 2 * _SAMPLE_PIECES : 2]
            if len(self._resolved) < MAX_REFERENCES:
                self._resolved |= {
                    reference: _resolve_reference(reference)
                    for reference in dict.fromkeys(references)
                    if reference not in self._resolved
                }
            get = self._resolved.get
            parts[start : start + 2 * _SAMPLE_PIECES : 2] = [get(reference, reference) for reference in references]
        return "".join(parts)


def resolve_character_references(text: str) -> str:
    """Return ``text`` with its character references resolved, as ``html.unescape`` does.

    A number may have any length.
    """
    return References().resolve(text) if "&" in text else text


def _resolve_reference(reference: str) -> str:
    """Return the characters of what ``_REFERENCE`` matches; of an unknown name only a known beginning."""
    if reference[1] != "#":
        known = html5.get(reference[1:])
        beginning = _LEGACY_REFERENCE.match(reference) if known is None else None
        return known or (html5[beginning[1]] + reference[beginning.end() :] if beginning else reference)
    is_hexadecimal = reference[2] in "xX"
    digits = reference[3:] if is_hexadecimal else reference[2:]
    if len(digits) > _MAX_DIGITS:
        digits = digits.rstrip(";").lstrip("0")[:_MAX_DIGITS] or "0"
    number = int(digits.rstrip(";"), 16 if is_hexadecimal else 10)
    if number < 0xA0:
        return _resolve_low_number(number)
    if 0xD800 <= number < 0xE000 or number > sys.maxunicode:
        return REPLACEMENT
    is_no_character = 0xFDD0 <= number < 0xFDF0 or number & 0xFFFE == 0xFFFE
    return "" if is_no_character else chr(number)


@lru_cache(maxsize=0xA0)
def _resolve_low_number(number: int) -> str:
    """Return the character of a number below 0xA0; some of them stand for characters of Windows-1252."""
    return html.unescape(f"&#{number};")
