"""Turns HTML into the text that a mail program shows, by the tokenizer states of the WHATWG standard.

Rules (https://html.spec.whatwg.org/multipage/parsing.html#tokenization): a tag ends at the first ">" that is not
in a quoted value; comments, bogus comments and doctypes end where the standard says; the content of raw text
elements ends at their own end tag, but within SVG and MathML all is markup. What has no end before the end of
the source is not shown, as in a browser. Every pattern here consumes what it has scanned, so no input costs more
than its length. No tree is built, because the tree construction of HTML is quadratic in the depth of the
nesting: a parser that follows it needed 325 s for 1.5 MB of ``<div>``.

Text on both sides of a tag is one word ("V<b></b>ia", "V<wbr>ia", "V<x-y>ia"), unless the element is a block, a
line break or a form control. All text here is in lower case.
"""

from __future__ import annotations

import html
import re
import sys
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from html.entities import html5

from nbstream.tokens.unicode import REPLACEMENT

BREAKING_ELEMENTS = frozenset(
    re.findall(
        r"\w+",
        """
    address article aside blockquote body br button caption center col colgroup dd details dialog dir div dl dt
    fieldset figcaption figure footer form frame frameset h1 h2 h3 h4 h5 h6 header hgroup hr html iframe input
    legend li listing main marquee menu nav object ol optgroup option p plaintext pre search section select summary
    table tbody td textarea tfoot th thead tr ul video xmp
    """,
    )
)
"""The elements that separate words: blocks, parts of tables, line breaks, form controls and embedded documents.

They are those that the standard's style sheet does not render inline (https://html.spec.whatwg.org/#rendering).
"""

# The content of these is characters up to their end tag. Of the last three a reader sees it.
_RAW_ELEMENTS = frozenset(
    {"script", "style", "title", "iframe", "noembed", "noframes", "textarea", "xmp", "plaintext"}
)
_SHOWN_RAW_ELEMENTS = frozenset({"textarea", "xmp", "plaintext"})
# Within these no element is raw text, and CDATA is text. Where they end can be told without a tree only about: at
# their end tag, or at an element that breaks out of them. Longer is harmless: it shows the text of a style sheet.
_FOREIGN_ELEMENTS = frozenset({"svg", "math"})
_CDATA_START = "<![cdata["

_SPACE = r"\t\n\f\r "
# A name may begin with "=". A value without its closing quote goes to the end of the source.
_ATTRIBUTE = (
    rf"[^{_SPACE}/>][^{_SPACE}/>=]*"
    rf"(?:[{_SPACE}]*=[{_SPACE}]*(?:\"[^\"]*(?:\"|\Z)|'[^']*(?:'|\Z)|[^{_SPACE}>\"'][^{_SPACE}>]*|(?=>)))?"
)
# A repeated group keeps a place to go back to for each repetition, so many are read in steps.
_ATTRIBUTES = rf"(?:[{_SPACE}/]+|{_ATTRIBUTE}){{0,64}}"
_TAG = re.compile(rf"<(/?)([a-z][^{_SPACE}/>]*){_ATTRIBUTES}")
_MORE_ATTRIBUTES = re.compile(_ATTRIBUTES)
_COMMENT_END = re.compile(r"--!?>")
_SCRIPT_MARK = re.compile(rf"<!--|-->|</?script(?=[{_SPACE}/>])")
_RAW_END = {name: re.compile(rf"</{name}(?=[{_SPACE}/>])") for name in _RAW_ELEMENTS - {"script", "plaintext"}}


# Patterns with a literal beginning, which are searched much faster than one with a choice.
_HIDING_STYLES = {
    name: re.compile(rf"{name}[{_SPACE}]*:[{_SPACE}]*{value}")
    for name, value in (
        ("display", "none"),
        ("visibility", "hidden"),
        ("font-size", "0(?![.0-9])"),
        ("opacity", "0(?![.0-9])"),
        ("mso-hide", "all"),
    )
}


def _by_first_letter(names: Iterable[str]) -> str:
    """Return a pattern for the longest of ``names`` that comes next."""
    by_first: dict[str, list[str]] = {}
    for name in sorted(names, key=len, reverse=True):
        by_first.setdefault(name[0], []).append(name[1:])
    return "|".join(f"{first}(?:{'|'.join(rests)})" for first, rests in by_first.items())


# A source is in lower case: of names that differ in their capitals alone, that without is known. The others mostly
# stand for letters that differ in their case.
_NAMES = {name.lower(): characters for name, characters in html5.items()} | html5
# A name without a semicolon is one of the hundred that older versions of HTML knew.
_LEGACY_NAMES = _by_first_letter(name for name in html5 if not name.endswith(";"))
_LEGACY_REFERENCE = f"&({_LEGACY_NAMES})"
_REFERENCE = rf"(&(?:#(?:[0-9]+|[xX][0-9a-fA-F]+);?|[A-Za-z][A-Za-z0-9]{{1,31}};|(?:{_LEGACY_NAMES})))"
MAX_REFERENCES = 5_000
"""How many different character references of a message are resolved, give or take a thousand."""
_SAMPLE_PIECES = 1000
_MAX_DIGITS = 8  # more make a number that is no character


@cache
def _pattern(text: str) -> re.Pattern[str]:
    """Return the pattern for references: with a hundred names it takes a millisecond to compile."""
    return re.compile(text)


def visible_text(source: str, references: References | None = None) -> str:
    """Return the text of an HTML source (lower case) that is in no tag, comment, script or style sheet.

    Text that a style hides is in it: the end of an element that is hidden cannot be told without a tree, and a
    sender must not be able to hide what follows. See ``hiding_styles``.
    """
    return (references or References()).resolve("".join(_visible_pieces(source)))


def hiding_styles(source: str) -> list[str]:
    """Return the properties by which styles of an HTML source (lower case) hide text, in the order of the table.

    Colours are not compared: what the ground is, only a browser can tell.
    """
    return [name for name, pattern in _HIDING_STYLES.items() if pattern.search(source)]


def _visible_pieces(source: str) -> Iterator[str]:
    written = 0  # what comes before this has been yielded
    is_foreign = False
    start = source.find("<")
    while start >= 0:
        end, piece, is_foreign = _markup_end(source, start, is_foreign)
        if end > start:
            yield source[written:start]
            yield piece
            written = end
        start = source.find("<", max(end, start + 1))
    yield source[written:]


def _markup_end(source: str, start: int, is_foreign: bool) -> tuple[int, str, bool]:
    """Return where the markup ends that the "<" at ``start`` begins, what it shows, and whether SVG follows it.

    Where no markup begins there, the end is ``start``. ``is_foreign`` says whether the source here is SVG or
    MathML; the third value says it for what follows.
    """
    tag = _TAG.match(source, start)
    if tag is None:
        if is_foreign and source.startswith(_CDATA_START, start):
            return start + len(_CDATA_START), "", True
        return _declaration_end(source, start), "", is_foreign
    is_end_tag, name = tag[1], tag[2]
    end = _tag_end(source, tag.end())
    separator = " " if name in BREAKING_ELEMENTS else ""
    if name in _FOREIGN_ELEMENTS:
        return end, separator, not is_end_tag
    is_raw = name in _RAW_ELEMENTS
    if is_foreign and (is_raw or name not in BREAKING_ELEMENTS):
        return end, separator, True
    if is_end_tag or not is_raw or end == len(source):
        return end, separator, False
    content_end = _raw_text_end(source, name, end)
    shown = source[end:content_end] if name in _SHOWN_RAW_ELEMENTS else ""
    return content_end, f"{separator}{shown}", False


def _tag_end(source: str, place: int) -> int:
    """Return the end of the tag of which ``source`` was read up to ``place``."""
    while place < len(source):
        if source[place] == ">":
            return place + 1
        attributes = _MORE_ATTRIBUTES.match(source, place)
        place = attributes.end() if attributes else len(source)
    return place


def _declaration_end(source: str, start: int) -> int:
    """Return the end of the comment, bogus comment, doctype or ``</>`` at ``start``; ``start`` without one."""
    if source.startswith("<!--", start):
        for empty in ("<!-->", "<!--->"):
            if source.startswith(empty, start):
                return start + len(empty)
        comment_end = _COMMENT_END.search(source, start + 4)
        return comment_end.end() if comment_end else len(source)
    if source.startswith(("!", "?"), start + 1) or (source.startswith("/", start + 1) and start + 2 < len(source)):
        end = source.find(">", start + 2)
        return end + 1 if end >= 0 else len(source)
    return start


def _raw_text_end(source: str, name: str, start: int) -> int:
    """Return where the end tag of the raw text element begins whose content begins at ``start``."""
    if name == "plaintext":
        return len(source)
    if name == "script":
        return _script_end(source, start)
    end_tag = _RAW_END[name].search(source, start)
    return end_tag.start() if end_tag else len(source)


def _script_end(source: str, start: int) -> int:
    """Return where the end tag begins of the script whose content begins at ``start``.

    In a script ``<!--`` begins the escaped state, and ``<script`` in that the double escaped one, where
    ``</script`` leads back to it; ``-->`` ends both.
    """
    escapes = 0
    place = start
    while mark := _SCRIPT_MARK.search(source, place):
        place = mark.end()
        if mark[0] == "<!--":
            escapes = max(escapes, 1)
            place -= 2  # its dashes may be those of "-->"
        elif mark[0] == "-->":
            escapes = 0
        elif mark[0] == "<script":
            escapes = min(2 * escapes, 2)
        elif escapes < 2:
            return mark.start()
        else:
            escapes = 1
    return len(source)


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
        parts = _pattern(_REFERENCE).split(text)  # every second part is a reference
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
        known = _NAMES.get(reference[1:])
        beginning = _pattern(_LEGACY_REFERENCE).match(reference) if known is None else None
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
