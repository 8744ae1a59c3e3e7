"""Turns text into words: compatibility forms are unified, case is folded, long words are summarised.

Rules: everything here reads its input once. A word never contains white space or control characters, because it is
made of letters, digits and a few marks between them.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from typing import TYPE_CHECKING, TypeVar

from nbstream.tokens import encoding
from nbstream.tokens.encoding import truncate_utf8
from nbstream.tokens.unicode import only_known

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

_Item = TypeVar("_Item")

MAX_WORD_CHARACTERS = 24
"""Longer words are summarised: they are mostly encoded data or random padding."""

# Words are cut here, so that no two different words become the same token when the token is cut.
_MAX_WORD_BYTES = encoding.MAX_TOKEN_BYTES - len("body:")

# The ASCII characters that make a word, in lower case; all others become a space. Translating and splitting the
# text is faster than finding words by a pattern.
_MARKS_INSIDE = b"'.@_-"
_WORD_BYTES = bytes(
    c if c > 127 or chr(c).isalnum() or c in _MARKS_INSIDE + b"$%!" else 32 for c in bytes(range(256)).lower()
)
_FOREIGN_MARKS = re.compile(r"[^\w\x00-\x7f\u20ac\u00a3\u00a5]+")
_UNSPACED_SCRIPTS = re.compile(r"[\u0e00-\u0eff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]")
# Normalisation sorts each run of combining marks by insertion, in quadratic time: 15 s for 160,000 of them.
_COMBINING_MARKS = re.compile(r"([^\w\s\x00-\x7f]{16})[^\w\s\x00-\x7f]+")
# Letters and digits, and their compatibility forms, that never combine with the character before them and never
# change places with it. Parts of Hangul, Indic vowel signs and all combining marks do. So a text can be cut before
# them.
_FOLDING_BOUNDARY = re.compile(
    r"(?=\w)[\x00-\u02ff\u0370-\u0482\u048a-\u052f\u05d0-\u05ea\u0620-\u064a\u0e01-\u0e30\u3041-\u3096"
    r"\u30a1-\u30fa\u3400-\u9fff\uac00-\ud7a3\ufb00-\ufb1d\ufb1f-\ufdff\ufe70-\ufefc\uff10-\uff9d\U0001d400-\U0001d7ff]"
)
_STRETCH_CHARACTERS = 1 << 14
# Of more than so many times the limit, words and pieces are chosen before equal pieces are left out: else few
# would be left of a text in which most are equal.
_CHOSEN_BEFORE = 8
_ALPHANUMERIC_RUN = re.compile(r"[^\W_]+")


def fold_text(text: str) -> str:
    """Return ``text`` in lower case, with compatibility forms (full-width, ligatures, styled letters) unified."""
    if text.isascii():
        return text.lower()
    text = only_known(text)
    if _COMBINING_MARKS.search(text):  # the search costs less than a substitution, and seldom finds any
        text = _COMBINING_MARKS.sub(r"\1", text)
    return unicodedata.normalize("NFKC", text).casefold()


def distinct_words(text: str) -> list[str]:
    """Return the distinct words of ``text``, in order of first appearance."""
    return [word.decode("utf-8") for word in distinct_words_utf8(text)]


def distinct_words_utf8(text: str, limit: int = sys.maxsize) -> Collection[bytes]:
    """Return the ``distinct_words`` of ``text`` in UTF-8; where they are more than ``limit``, ``spread_choice``.

    Words are bytes from the beginning, and are not cached: both alternatives were slower (docs/experiments.md,
    "Tokens").
    """
    special = not text.isascii()
    if special:
        text = _fold_pieces(text)
        special = _UNSPACED_SCRIPTS.search(text) is not None
    separated = text.encode("utf-8", "replace").translate(_WORD_BYTES)
    words = dict.fromkeys([word.strip(_MARKS_INSIDE) for word in dict.fromkeys(separated.split())])
    words.pop(b"", None)
    if special or max(map(len, words), default=0) > MAX_WORD_CHARACTERS:
        words = _shortened_words(words, limit)
    return words if len(words) <= limit else spread_choice(tuple(words), limit)


def spread_choice(items: Sequence[_Item], limit: int, ends: int | None = None) -> Sequence[_Item]:
    """Return all ``items`` where they are at most ``limit``; else a choice of so many, in order.

    It has the first and the last ``ends`` (a quarter of ``limit`` where that is None), and others at equal
    distances between them. So the beginning and the end are always read, and what stands between is read in
    proportion: of few items among many others, few are chosen.
    """
    excess = len(items) - limit
    if excess <= 0:
        return items
    ends = limit // 4 if ends is None else ends
    between = items[ends : len(items) - ends]
    count = limit - 2 * ends
    evenly = [between[number * len(between) // count] for number in range(count)]
    return (*items[:ends], *evenly, *items[len(items) - ends :])


def _shortened_words(words: dict[bytes, None], limit: int) -> dict[bytes, None]:
    """Return the words with long ones summarised and unspaced ones split; of many a choice, more than ``limit``.

    It works word by word, so that other threads can run in between. The words are chosen before they are split,
    and their pieces before they are compared, so a text of 1 MB costs little more than to read it.
    """
    ends = limit // 4
    pieces: list[str] = []
    for word in spread_choice(tuple(words), _CHOSEN_BEFORE * limit, ends):
        pieces.extend(_word_pieces(word.decode("utf-8")))
    chosen = spread_choice(pieces, _CHOSEN_BEFORE * limit, ends)
    return dict.fromkeys([truncate_utf8(piece.encode(), _MAX_WORD_BYTES) for piece in chosen])


def _word_pieces(word: str) -> Iterator[str]:
    """Yield a word as it is, as pairs of characters (scripts without spaces), or as a summary (long words)."""
    if _is_unspaced(word):
        yield from (word[i : i + 2] for i in range(max(1, len(word) - 1)))
    elif len(word) <= MAX_WORD_CHARACTERS:
        yield word
    else:
        yield f"~{word[0]}{min(len(word), 400) // 10}"
        yield from (piece for piece in _ALPHANUMERIC_RUN.findall(word[:400]) if len(piece) <= MAX_WORD_CHARACTERS)


def _is_unspaced(word: str) -> bool:
    return not word.isascii() and _UNSPACED_SCRIPTS.match(word) is not None


def _fold_pieces(text: str) -> str:
    """Return the distinct pieces of ``text`` between white space, with those beyond ASCII folded.

    No rule of folding reaches across white space, so each piece becomes what it would become in the whole text.
    Only the pieces beyond ASCII are folded, because they are mostly few.
    """
    pieces = dict.fromkeys(text.split())
    foreign = "\n".join([piece for piece in pieces if not piece.isascii()])
    folded = "".join([_FOREIGN_MARKS.sub(" ", fold_text(stretch)) for stretch in _foldable_stretches(foreign)])
    folded_pieces = iter(folded.split("\n"))
    return " ".join([piece if piece.isascii() else next(folded_pieces) for piece in pieces])


def _foldable_stretches(text: str) -> Iterator[str]:
    """Yield ``text`` in stretches that can be folded one by one with the same result.

    Folding 1 MB of U+FDFA in one step held the interpreter lock for 0.3 s.
    """
    start = 0
    while len(text) - start > _STRETCH_CHARACTERS and (
        boundary := _FOLDING_BOUNDARY.search(text, start + _STRETCH_CHARACTERS)
    ):
        yield text[start : boundary.start()]
        start = boundary.start()
    yield text[start:]


def text_shape(text: str, limit: int = 24) -> str:
    """Return the outline of ``text``: runs of digits become 9, of capitals A, of other letters a."""
    outline = text[:200].encode("utf-8", "surrogatepass").translate(_SHAPE_TABLE).decode("utf-8", "surrogatepass")
    # Most texts have few kinds of runs, and looking for one is faster than a pattern that replaces nothing.
    if "99" in outline:
        outline = _DIGIT_RUN.sub("9", outline)
    if "AA" in outline:
        outline = _UPPER_RUN.sub("A", outline)
    if "aa" in outline:
        outline = _LOWER_RUN.sub("a", outline)
    return outline[:limit]


_SHAPE_TABLE = bytes(
    ord("9Aa"[chr(c).isalpha() + chr(c).islower()]) if c < 128 and chr(c).isalnum() else c for c in range(256)
)
_DIGIT_RUN = re.compile(r"99+")
_UPPER_RUN = re.compile(r"AA+")
_LOWER_RUN = re.compile(r"aa+")
