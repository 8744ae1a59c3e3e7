"""HTML to the text a reader sees, by three passes that each read every character once.

Rules: a pattern here consumes what it has scanned, whatever follows, so no input costs more than its length.
No tree is built: the HTML parsing algorithm is quadratic in the depth of the nesting, and a parser that
follows it needed 325 s for 1.5 MB of ``<div>``. Text between inline tags is joined ("V<b></b>ia" is one word),
text between other tags is kept apart.
"""

from __future__ import annotations

import html
import re

# Case-sensitive on lower-cased text: that takes a third of the time of patterns that ignore case.
_INVISIBLE = re.compile(
    r"<(?:!--.*?(?:-->|\Z)"
    r"|(?:script\b.*?(?:</script|\Z)|style\b.*?(?:</style|\Z)|title\b.*?(?:</title|\Z))[^>]*>?"
    r"|/?(?:a|abbr|b|big|em|font|i|ins|s|small|span|strong|tt|u)\b[^>]*>?)",
    re.DOTALL,
)
_TAG = re.compile(r"<[/!?a-z][^>]*>?")
_HTML_START = re.compile(r"<(?:!doctype html|html|body|table)\b")


def is_html(content_type: str, text: str) -> bool:
    """Whether a text part, in lower case, is to be read as HTML: by its type, or because it opens as HTML."""
    return content_type == "text/html" or _HTML_START.match(text[:200].lstrip()) is not None


def visible_text(source: str) -> str:
    """The text of a lower-case HTML source without tags, comments, scripts and styles; entities resolved."""
    return resolve_character_references(_TAG.sub(" ", _INVISIBLE.sub("", source)))


def resolve_character_references(text: str) -> str:
    """``text`` with its character references resolved; left as it is where one cannot be."""
    if "&" not in text:
        return text
    try:
        return html.unescape(text)
    except ValueError:  # a reference of more than 4,300 digits: int() refuses to read it
        return text
