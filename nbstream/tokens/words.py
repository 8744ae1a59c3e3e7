"""Turns text into words: compatibility forms are unified, case is folded, long words are summarised.

Rules: everything here reads its input once. A word never contains white space or control characters, because it is
made of letters, digits and a few marks between them.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from nbstream.tokens.tokens import MAX_TOKEN_BYTES, truncate_utf8
from nbstream.tokens.unicode import MARKS, only_known, without_decorations, without_ignorable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

_Item = TypeVar("_Item")

MAX_WORD_CHARACTERS = 24
"""Longer words are summarised: they are mostly encoded data or random padding."""

# Words are cut here, so that no two different words become the same token when the token is cut.
_MAX_WORD_BYTES = MAX_TOKEN_BYTES - len("body:")

# The ASCII characters that make a word, in lower case; all others become a space. Translating and splitting the
# text is faster than finding words by a pattern.
_MARKS_INSIDE = b"'.@_-"
_WORD_BYTES = bytes(
    c if c > 127 or chr(c).isalnum() or c in _MARKS_INSIDE + b"$%!" else 32 for c in bytes(range(256)).lower()
)
# The words of text beyond ASCII, which is folded already: letters with their marks (Unicode Standard Annex 29).
_WORD = rf"[\w{MARKS}'.@$%!\u20ac\u00a3\u00a5-]+"
# Thai, Lao, Tibetan, Myanmar, Khmer, Tai Le, Tai Lue, Tai Tham, Chinese, Japanese, Myanmar, Tai Viet, Korean.
_UNSPACED_SCRIPTS = (
    r"[\u0e00-\u109f\u1780-\u17ff\u1950-\u19ff\u1a20-\u1aaf\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    r"\ua9e0-\ua9ff\uaa60-\uaadf\uac00-\ud7af]"
)
# Normalisation sorts each run of combining marks by insertion, in quadratic time: 15 s for 160,000 of them.
_COMBINING_MARKS = re.compile(r"([^\w\s\x00-\x7f]{16})[^\w\s\x00-\x7f]+")
# Letters and digits, and their compatibility forms, that never combine with the character before them and never
# change places with it. Parts of Hangul, Indic vowel signs and all combining marks do. So a text can be cut before
# them.
_FOLDING_BOUNDARY = (
    r"(?=\w)[\x00-\u02ff\u0370-\u0482\u048a-\u052f\u05d0-\u05ea\u0620-\u064a\u0e01-\u0e30\u3041-\u3096"
    r"\u30a1-\u30fa\u3400-\u9fff\uac00-\ud7a3\ufb00-\ufb1d\ufb1f-\ufdff\ufe70-\ufefc\uff10-\uff9d\U0001d400-\U0001d7ff]"
)
# Text is folded in stretches: at the next boundary, or anywhere where there is none nearby. Normalisation sorts a
# stretch of combining marks in quadratic time, so longer ones cost more.
_STRETCH_CHARACTERS = 128
_STEP_CHARACTERS = 1 << 16
_LONGEST_STRETCH_CHARACTERS = 192
# Of more than so many times the limit, words and pieces are chosen before equal pieces are left out: else few
# would be left of a text in which most are equal.
_CHOSEN_BEFORE = 8
# Of more different words of a text so many are chosen before anything else. No text of people has so many.
_MAX_WRITTEN_WORDS = 1 << 16
_ALPHANUMERIC_RUN = re.compile(r"[^\W_]+")


MAX_FOLDED_CHARACTERS = 1 << 18
"""How many characters of a message are made by folding that changes more than the case; no more than its bytes."""
MAX_PIECES = 1 << 15
"""How many words of a message may be split, and into how many pieces; see ``WordAllowance``."""
_MIN_PIECES = 64


class WordAllowance:
    """How much of the work that costs most may still be done for the texts of one message.

    To unify compatibility forms costs thirty times as much as to change the case, and U+FDFA becomes 18
    characters. Behind the limit such text keeps its forms, in lower case: so all of it is still read. Words are
    looked at one by one where some are long or have no spaces between them. Of a text behind the limit of words or
    pieces, ``_MIN_PIECES`` are chosen.
    """

    def __init__(self, characters: int = MAX_FOLDED_CHARACTERS) -> None:
        self.characters = characters
        self._words = self._pieces = MAX_PIECES

    def take_words(self, wanted: int) -> int:
        """Return how many words of a text may be looked at one by one."""
        allowed = min(wanted, max(self._words, _MIN_PIECES))
        self._words -= allowed
        return allowed

    def take_pieces(self, wanted: int) -> int:
        """Return how many pieces of the words of a text may be made."""
        allowed = min(wanted, max(self._pieces, _MIN_PIECES))
        self._pieces -= allowed
        return allowed

    def fold(self, stretch: str) -> str:
        """Return the stretch of a text as ``fold_text`` does, within the allowance."""
        if self.characters <= 0:
            folded = stretch.casefold()
            return folded if len(folded) <= len(stretch) else stretch.lower()
        normal = unicodedata.normalize("NFKC", stretch)
        folded = normal.casefold()
        # What is normal already comes back as the very same object; whether it is has been seen at a glance.
        if normal is not stretch or len(folded) > len(stretch):
            self.characters -= len(folded)
        return folded


def fold_text(text: str) -> str:
    """Return ``text`` in lower case, with compatibility forms (full-width, ligatures, styled letters) unified."""
    text = without_ignorable(text)
    if text.isascii():
        return text.lower()
    text = only_known(text)
    if _COMBINING_MARKS.search(text):  # the search costs less than a substitution, and seldom finds any
        text = _COMBINING_MARKS.sub(r"\1", text)
    return without_decorations(unicodedata.normalize("NFKC", text).casefold())


@cache
def _pattern(text: str) -> re.Pattern[str]:
    """Return a pattern for text beyond ASCII: such patterns take milliseconds to compile, and many need none."""
    return re.compile(text)


def distinct_words(text: str) -> list[str]:
    """Return the distinct words of ``text``, in order of first appearance."""
    return [word.decode("utf-8") for word in distinct_words_utf8(text)]


def distinct_words_utf8(
    text: str, limit: int = sys.maxsize, allowance: WordAllowance | None = None
) -> Collection[bytes]:
    """Return the ``distinct_words`` of ``text`` in UTF-8; where they are more than ``limit``, ``spread_choice``.

    All texts of a message share its ``allowance``; without one the text has an allowance of its own. Words are
    bytes from the beginning, and are not cached: both alternatives were slower.
    """
    allowance = allowance or WordAllowance()
    text = without_ignorable(text)
    is_foreign = not text.isascii()
    if is_foreign:
        text = _fold_pieces(text, allowance)
        # Only ASCII may have capitals here, of which bytes.lower() knows.
        written = "\n".join(_written_words(text)).encode("utf-8", "replace").lower().split(b"\n")
    else:
        written = list(dict.fromkeys(text.encode().translate(_WORD_BYTES).split()))
    words = dict.fromkeys([word.strip(_MARKS_INSIDE) for word in spread_choice(written, _MAX_WRITTEN_WORDS)])
    words.pop(b"", None)
    has_unspaced = is_foreign and _pattern(_UNSPACED_SCRIPTS).search(text) is not None
    if has_unspaced or max(map(len, words), default=0) > MAX_WORD_CHARACTERS:
        words = _shortened_words(words, limit, allowance)
    return words if len(words) <= limit else spread_choice(tuple(words), limit)


def _written_words(text: str) -> dict[str, None]:
    """Return the distinct words of folded text as they are written, in order.

    In one step half a million words of one letter hold the interpreter lock for 60 ms.
    """
    words: dict[str, None] = {}
    start, pattern = 0, _pattern(_WORD)
    while start < len(text):
        cut_word = pattern.match(text, start + _STEP_CHARACTERS)
        end = cut_word.end() if cut_word else start + _STEP_CHARACTERS
        words |= dict.fromkeys(pattern.findall(text, start, end))
        start = end
    return words


def spread_choice(items: Sequence[_Item], limit: int, ends: int | None = None) -> Sequence[_Item]:
    """Return all ``items`` where they are at most ``limit``; else a choice of so many, in order.

    It has the first and the last ``ends`` (a quarter of ``limit`` where that is None), and others at equal
    distances between them. So the beginning and the end are always read, and what stands between is read in
    proportion: of few items among many others, few are chosen.
    """
    if len(items) <= limit:
        return items
    return tuple([items[position] for position in _spread_positions(len(items), limit, ends)])


def _spread_positions(size: int, limit: int, ends: int | None = None) -> Sequence[int]:
    """Return the positions of a ``spread_choice`` of so many items."""
    if size <= limit:
        return range(size)
    ends = limit // 4 if ends is None else ends
    between, count = size - 2 * ends, limit - 2 * ends
    evenly = [ends + number * between // count for number in range(count)]
    return (*range(ends), *evenly, *range(size - ends, size))


def _shortened_words(words: dict[bytes, None], limit: int, allowance: WordAllowance) -> dict[bytes, None]:
    """Return the words with long ones summarised and unspaced ones split; of many a choice, more than ``limit``.

    It works word by word, so that other threads can run in between. The words are chosen before they are split,
    and the pieces of a word without spaces before they are made, so a text of 1 MB costs little more than to read
    it.
    """
    ends = limit // 4
    count = allowance.take_words(min(len(words), _CHOSEN_BEFORE * limit))
    chosen_words = spread_choice(tuple(words), count, min(ends, count // 4))
    splits = [
        (encoded,)
        if len(encoded) <= MAX_WORD_CHARACTERS and encoded.isascii()
        else _word_pieces(encoded.decode("utf-8"))
        for encoded in chosen_words
    ]
    sizes = list(map(len, splits))
    count = allowance.take_pieces(min(sum(sizes), _CHOSEN_BEFORE * limit))
    positions = iter(_spread_positions(sum(sizes), count, min(ends, count // 4)))
    chosen: list[bytes] = []
    start, position = 0, next(positions, -1)
    for pieces, size in zip(splits, sizes, strict=True):
        while 0 <= position < start + size:
            chosen.append(pieces[position - start])
            position = next(positions, -1)
        start += size
    return dict.fromkeys([truncate_utf8(piece, _MAX_WORD_BYTES) for piece in chosen])


class _Pairs(Sequence[bytes]):
    """The pairs of characters of a word, each made when it is asked for."""

    def __init__(self, word: str) -> None:
        self._word = word

    def __len__(self) -> int:
        return max(1, len(self._word) - 1)

    def __getitem__(self, position: Any) -> Any:
        return self._word[position : position + 2].encode()


def _word_pieces(word: str) -> Sequence[bytes]:
    """Return a word as it is, as pairs of characters (scripts without spaces), or as a summary (long words)."""
    if _is_unspaced(word):
        return _Pairs(word)
    if len(word) <= MAX_WORD_CHARACTERS:
        return (word.encode(),)
    runs = [piece for piece in _ALPHANUMERIC_RUN.findall(word[:400]) if len(piece) <= MAX_WORD_CHARACTERS]
    return [piece.encode() for piece in (f"~{word[0]}{min(len(word), 400) // 10}", *runs)]


def _is_unspaced(word: str) -> bool:
    return not word.isascii() and _pattern(_UNSPACED_SCRIPTS).match(word) is not None


def _fold_pieces(text: str, allowance: WordAllowance) -> str:
    """Return the distinct pieces of ``text`` between white space, with those beyond ASCII folded.

    No rule of folding reaches across white space, so each piece becomes what it would become in the whole text.
    Only the pieces beyond ASCII are folded, because they are mostly few.
    """
    pieces = dict.fromkeys(text.split())
    foreign = only_known("\n".join([piece for piece in pieces if not piece.isascii()]))
    folded_pieces = iter(without_decorations(fold_stretches(foreign, allowance)).split("\n"))
    return " ".join([piece if piece.isascii() else next(folded_pieces) for piece in pieces])


def fold_stretches(text: str, allowance: WordAllowance) -> str:
    """Return ``text`` folded in stretches, within the allowance."""
    return "".join(map(allowance.fold, _foldable_stretches(text)))


def _foldable_stretches(text: str) -> Iterator[str]:
    """Yield ``text`` in stretches that can be folded one by one, mostly with the same result."""
    start, pattern = 0, _pattern(_FOLDING_BOUNDARY)
    while len(text) - start > _LONGEST_STRETCH_CHARACTERS:
        longest = start + _LONGEST_STRETCH_CHARACTERS
        boundary = pattern.search(text, start + _STRETCH_CHARACTERS, longest)
        end = boundary.start() if boundary else longest
        yield text[start:end]
        start = end
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
