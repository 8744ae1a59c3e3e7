"""Shell-like patterns over whole mail addresses, and which of them say nothing new.

Rules: ``*`` stands for any characters, ``?`` for one, every other character for itself, upper and lower case are
the same. An address has something before its last ``@`` and something without ``@`` behind it; no pattern matches
anything else.

A pattern is a small automaton: bit i of an integer says that its first i characters are matched. Two of them are
run side by side over every word that could tell them apart: the characters of both, ``@``, and one that is in
neither. What such a search does not decide within ``_MAX_STATES`` counts as not covered, so what is said to be
covered is covered.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

MAX_LENGTH = 320
"""Of a pattern; an address has 64 characters, an ``@`` and 255 at most (RFC 5321 4.5.3.1)."""

_ALLOWED = re.compile(rf"[^\s<>\x00-\x1f\x7f]{{1,{MAX_LENGTH}}}")
_MAX_STATES = 5000
_OTHER = "\0"  # is in no pattern, and so stands for all characters that are in neither of two
_NOTHING = 0

# How far a word has got on its way to being an address.
_BEGIN, _LOCAL, _AT, _ADDRESS = range(4)


@dataclass(frozen=True)
class Pattern:
    """A pattern; ``text`` is as it was written. ValueError: too long, or with what is in no address."""

    text: str

    def __post_init__(self) -> None:
        if not _ALLOWED.fullmatch(self.text) or not self.text.isprintable():
            raise ValueError(
                f"must be 1 to {MAX_LENGTH} characters of an address, with * for any and ? for one character"
            )

    def matches(self, address: str) -> bool:
        """Whether it matches this address, in time linear in it times the number of ``*``."""
        return first_match([self], address) == 0

    @property
    def matchable(self) -> bool:
        """Whether there is an address that it matches."""
        return _found_outside(self, None) is not False

    def covers(self, other: Pattern) -> bool:
        """Whether it certainly matches every address that ``other`` matches."""
        if self._letters == other._letters:
            return True
        if not all(self.matches(word) for word in other._samples):
            return False  # cheaper, and what two patterns of a list mostly come to
        return _found_outside(other, self) is False

    @cached_property
    def _letters(self) -> str:
        return re.sub(r"\*+", "*", self.text.lower())

    @cached_property
    def expression(self) -> re.Pattern[str]:
        """What matches an address in lower case."""
        # Its atomic groups give nothing back: many stars over a long address take no more than their product.
        return re.compile(fnmatch.translate(self._letters.replace("[", "[[]")))

    @cached_property
    def _samples(self) -> list[str]:
        words = [self._letters.replace("?", _OTHER).replace("*", each) for each in ("", _OTHER)]
        return [word for word in words if self.matches(word)]

    @cached_property
    def _stars(self) -> int:
        return sum(1 << place for place, letter in enumerate(self._letters) if letter == "*")

    @cached_property
    def _steps(self) -> dict[str, int]:
        """By letter, the places that it may be at; those of a letter that is not here are those of ``?``."""
        places: dict[str, int] = {}
        for letter in {*self._letters, _OTHER}:
            places[letter] = sum(1 << place for place, own in enumerate(self._letters) if own in {letter, "?"})
        return places

    @property
    def _start(self) -> int:
        return self._closed(1)

    def _closed(self, states: int) -> int:
        return states | (states & self._stars) << 1  # one step will do: no star follows another

    def _after(self, states: int, letter: str) -> int:
        step = self._steps.get(letter, self._steps[_OTHER])
        return self._closed((states & step) << 1 | (states & self._stars))

    def _ends(self, states: int) -> bool:
        return bool(states >> len(self._letters) & 1)


def first_match(patterns: Sequence[Pattern], address: str) -> int | None:
    """The place of the first pattern that matches this address; None where none does."""
    local, _, domain = address.rpartition("@")
    if not local or not domain:
        return None
    folded = address.lower()
    return next((place for place, each in enumerate(patterns) if each.expression.match(folded)), None)


def _found_outside(inner: Pattern, outer: Pattern | None) -> bool | None:
    """Whether some address matches ``inner`` but not ``outer`` (None matches nothing); None: not known."""
    alphabet = sorted({"@", _OTHER, *inner._letters, *(outer._letters if outer else "")} - {"*", "?"})
    first = (inner._start, _BEGIN, outer._start if outer else _NOTHING)
    seen, waiting = {first}, [first]
    while waiting:
        inside, progress, outside = waiting.pop()
        if progress == _ADDRESS and inner._ends(inside) and not (outer and outer._ends(outside)):
            return True
        if len(seen) > _MAX_STATES:
            return None
        for letter in alphabet:
            state = (
                inner._after(inside, letter),
                _progress(progress, letter),
                outer._after(outside, letter) if outer else _NOTHING,
            )
            if state[0] and state not in seen:
                seen.add(state)
                waiting.append(state)
    return False


def _progress(state: int, letter: str) -> int:
    if state == _BEGIN:
        return _LOCAL
    if letter == "@":
        return _AT
    return _LOCAL if state == _LOCAL else _ADDRESS
