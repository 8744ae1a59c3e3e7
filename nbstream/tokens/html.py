"""Turns HTML into the text that a reader sees, in three passes that each read every character once.

Rules: a pattern here consumes what it has scanned, whatever follows, so no input costs more than its length. No
tree is built, because the HTML parsing algorithm is quadratic in the depth of the nesting: a parser that follows
it needed 325 s for 1.5 MB of ``<div>``. Text on both sides of an inline tag is joined ("V<b></b>ia" is one word);
text on both sides of another tag is separated.
"""

from __future__ import annotations

import html
import re

# The text is in lower case: these patterns are faster than patterns that ignore case.
_INVISIBLE = re.compile(
    r"<(?:!--.*?(?:-->|\Z)"
    r"|(?:script\b.*?(?:</script|\Z)|style\b.*?(?:</style|\Z)|title\b.*?(?:</title|\Z))[^>]*>?"
    r"|/?(?:a|abbr|b|big|em|font|i|ins|s|small|span|strong|tt|u)\b[^>]*>?)",
    re.DOTALL,
)
_TAG = re.compile(r"<[/!?a-z][^>]*>?")
_HTML_START = re.compile(r"<(?:!doctype html|html|body|table)\b")


def is_html(content_type: str, text: str) -> bool:
    """Return whether a text part (lower case) is HTML: by its type, or because it begins like HTML."""
    return content_type == "text/html" or _HTML_START.match(text[:200].lstrip()) is not None


def visible_text(source: str) -> str:
    """Return the text of an HTML source (lower case) without tags, comments, scripts and styles."""
    return resolve_character_references(_TAG.sub(" ", _INVISIBLE.sub("", source)))


def resolve_character_references(text: str) -> str:
    """Return ``text`` with its character references resolved, or ``text`` itself if one of them cannot be."""
    if "&" not in text:
        return text
    try:
        return html.unescape(text)
    except ValueError:  # a reference of more than 4,300 digits: int() refuses to read it
        return text
