"""Text to word tokens: compatibility forms unified, case folded, long words summarised.

Rules: everything here reads its input once; a token never holds white space or control characters, because a
word is made of letters, digits and a few marks between them.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from typing import TYPE_CHECKING

from nbstream.tokens import encoding
from nbstream.tokens.encoding import truncate_utf8
from nbstream.tokens.unicode import only_known

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

MAX_WORD_CHARACTERS = 24
"""Words of more characters are summarised, not kept: they are mostly encoded data or random padding."""

_MAX_WORD_BYTES = encoding.MAX_TOKEN_BYTES - len(
    "body:"
)  # so that no token of a word is cut, and two made one, later on

# Of the ASCII characters those that make a word, in lower case; all others separate. Splitting a translated text
# is three times as fast as finding words by a pattern.
_MARKS_INSIDE = b"'.@_-"
_WORD_BYTES = bytes(
    c if c > 127 or chr(c).isalnum() or c in _MARKS_INSIDE + b"$%!" else 32 for c in bytes(range(256)).lower()
)
_FOREIGN_MARKS = re.compile(r"[^\w\x00-\x7f\u20ac\u00a3\u00a5]+")
_UNSPACED_SCRIPTS = re.compile(r"[\u0e00-\u0eff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]")
# Normalising sorts each run of combining marks by insertion, in quadratic time: 15 s for 160,000 of them.
_COMBINING_MARKS = re.compile(r"([^\w\s\x00-\x7f]{16})[^\w\s\x00-\x7f]+")
# Letters and digits that neither join nor move behind what is before them, whatever it is, nor does what they
# are compatible with. Parts of Hangul, Indic vowel signs and all combining marks do.
_FOLDING_BOUNDARY = re.compile(
    r"(?=\w)[\x00-\u02ff\u0370-\u0482\u048a-\u052f\u05d0-\u05ea\u0620-\u064a\u0e01-\u0e30\u3041-\u3096"
    r"\u30a1-\u30fa\u3400-\u9fff\uac00-\ud7a3\ufb00-\ufb1d\ufb1f-\ufdff\ufe70-\ufefc\uff10-\uff9d\U0001d400-\U0001d7ff]"
)
_STRETCH_CHARACTERS = 1 << 14
_PIECE = re.compile(r"[^\W_]+")


def fold_text(text: str) -> str:
    """``text`` in lower case, with compatibility forms (full-width, ligatures, styled letters) unified."""
    if text.isascii():
        return text.lower()
    text = only_known(text)
    if _COMBINING_MARKS.search(text):  # seldom, and a replacement by a template costs more than to look
        text = _COMBINING_MARKS.sub(r"\1", text)
    return unicodedata.normalize("NFKC", text).casefold()


def distinct_words(text: str) -> list[str]:
    """The distinct words of ``text``, in order of first appearance."""
    return [word.decode("utf-8") for word in distinct_words_utf8(text)]


def distinct_words_utf8(text: str, most: int = sys.maxsize) -> Collection[bytes]:
    """``distinct_words`` in UTF-8, the first ``most`` of them.

    Bytes all the way: strings in between took a little longer. A memory of the words that came before
    took a quarter longer: what it needs of the processor's caches costs more than making a word again.
    """
    special = not text.isascii()
    if special:
        text = _fold_pieces(text)
        special = _UNSPACED_SCRIPTS.search(text) is not None
    separated = text.encode("utf-8", "replace").translate(_WORD_BYTES)
    found = dict.fromkeys([piece.strip(_MARKS_INSIDE) for piece in dict.fromkeys(separated.split())])
    found.pop(b"", None)
    if special or max(map(len, found), default=0) > MAX_WORD_CHARACTERS:
        found = _shortened_words(found, most)
    return found if len(found) <= most else tuple(found)[:most]


def _shortened_words(found: Iterable[bytes], most: int) -> dict[bytes, None]:
    """Words as they are kept, the first ``most`` at least; word by word, so that other threads run in between."""
    kept: dict[bytes, None] = {}
    for word in found:
        if len(word) <= MAX_WORD_CHARACTERS and word.isascii():
            kept[word] = None
            continue
        for piece in _word_pieces(word.decode("utf-8")):
            kept[truncate_utf8(piece.encode(), _MAX_WORD_BYTES)] = None
            if len(kept) >= most:
                return kept
    return kept


def _word_pieces(word: str) -> Iterator[str]:
    """A word as it is kept: itself, pairs of characters for scripts without spaces, a summary when long."""
    if not word.isascii() and _UNSPACED_SCRIPTS.match(word):
        yield from (word[i : i + 2] for i in range(max(1, len(word) - 1)))
    elif len(word) <= MAX_WORD_CHARACTERS:
        yield word
    else:
        yield f"~{word[0]}{min(len(word), 400) // 10}"
        yield from (piece for piece in _PIECE.findall(word[:400]) if len(piece) <= MAX_WORD_CHARACTERS)


def _fold_pieces(text: str) -> str:
    """What is in ``text`` between white space, once each; what of it is beyond ASCII, folded.

    White space stops every rule of folding, so each piece becomes what it would be in the whole text. Mostly few
    pieces are beyond ASCII: that takes two thirds of the time.
    """
    pieces = dict.fromkeys(text.split())
    foreign = "\n".join([piece for piece in pieces if not piece.isascii()])
    folded = "".join([_FOREIGN_MARKS.sub(" ", fold_text(stretch)) for stretch in _foldable_stretches(foreign)])
    each = iter(folded.split("\n"))
    return " ".join([piece if piece.isascii() else next(each) for piece in pieces])


def _foldable_stretches(text: str) -> Iterator[str]:
    """``text`` in stretches that fold as they would in one: 1 MB of U+FDFA held the interpreter for 0.3 s."""
    start = 0
    while len(text) - start > _STRETCH_CHARACTERS and (
        apart := _FOLDING_BOUNDARY.search(text, start + _STRETCH_CHARACTERS)
    ):
        yield text[start : apart.start()]
        start = apart.start()
    yield text[start:]


def text_shape(text: str, limit: int = 24) -> str:
    """The outline of ``text``: runs of digits as 9, of capitals as A, of other letters as a, the rest kept."""
    outline = text[:200].encode("utf-8", "surrogatepass").translate(_SHAPE_TABLE).decode("utf-8", "surrogatepass")
    # Two thirds of the time of three patterns over every text: most are short, and have few kinds of runs.
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
