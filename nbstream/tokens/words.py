"""Text to word tokens: compatibility forms unified, case folded, long words summarised.

Rules: everything here reads its input once; a token never holds white space or control characters, because a
word is made of letters, digits and a few marks between them.
"""

from __future__ import annotations

import re
import unicodedata
from itertools import chain

LONGEST = 24
"""Words of more characters are summarised, not kept: they are mostly encoded data or random padding."""

# Of the ASCII characters those that make a word; all others separate. Splitting a translated text is three times
# as fast as finding words by a pattern.
_MARKS_INSIDE = "'.@_-"
_SEPARATED = bytes(c if c > 127 or chr(c).isalnum() or chr(c) in _MARKS_INSIDE + "$%!" else 32 for c in range(256))
_FOREIGN_MARKS = re.compile(r"[^\w\x00-\x7f\u20ac\u00a3\u00a5]+")
_UNSPACED = re.compile(r"[\u0e00-\u0eff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]")
# Normalising sorts each run of combining marks by insertion, in quadratic time: 15 s for 160,000 of them.
_MARKS = re.compile(r"([^\w\s\x00-\x7f]{16})[^\w\s\x00-\x7f]+")
_PIECE = re.compile(r"[^\W_]+")


def fold(text: str) -> str:
    """``text`` in lower case, with compatibility forms (full-width, ligatures, styled letters) unified."""
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFKC", _MARKS.sub(r"\1", text)).casefold()


def words(text: str) -> list[str]:
    """The distinct words of ``text``, in order of first appearance."""
    folded = fold(text)
    special = not folded.isascii()
    if special:
        special = _UNSPACED.search(folded) is not None
        folded = _FOREIGN_MARKS.sub(" ", folded)
    separated = folded.encode("utf-8", "replace").translate(_SEPARATED).decode("utf-8")
    found = dict.fromkeys([word.strip(_MARKS_INSIDE) for word in dict.fromkeys(separated.split())])
    found.pop("", None)
    if special or max(map(len, found), default=0) > LONGEST:
        kept = [[word] if word.isascii() and len(word) <= LONGEST else _pieces(word) for word in found]
        return list(dict.fromkeys(chain.from_iterable(kept)))
    return list(found)


def _pieces(word: str) -> list[str]:
    """A word as it is kept: itself, pairs of characters for scripts without spaces, a summary when long."""
    if not word.isascii() and _UNSPACED.match(word):
        return [word[i : i + 2] for i in range(max(1, len(word) - 1))]
    if len(word) <= LONGEST:
        return [word]
    summary = f"~{word[0]}{min(len(word), 400) // 10}"
    return [summary, *(piece for piece in _PIECE.findall(word[:400]) if len(piece) <= LONGEST)]


def shape(text: str, limit: int = 24) -> str:
    """The outline of ``text``: runs of digits as 9, of capitals as A, of other letters as a, the rest kept."""
    outline = _LOWER_RUN.sub("a", _UPPER_RUN.sub("A", _DIGIT_RUN.sub("9", text[:200])))
    return outline[:limit]


_DIGIT_RUN = re.compile(r"[0-9]+")
_UPPER_RUN = re.compile(r"[A-Z]+")
_LOWER_RUN = re.compile(r"[a-z]+")
