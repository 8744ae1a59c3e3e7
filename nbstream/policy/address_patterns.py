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

MAX_PATTERN_LENGTH = 320
"""Of a pattern; an address has 64 characters, an ``@`` and 255 at most (RFC 5321 4.5.3.1)."""

_PATTERN_TEXT = re.compile(rf"[^\s<>\x00-\x1f\x7f]{{1,{MAX_PATTERN_LENGTH}}}")
_MAX_STATES = 5000
_OTHER_CHARACTER = "\0"  # is in no pattern, and so stands for all characters that are in neither of two
_NO_STATES = 0

# How far a word has got on its way to being an address.
_BEGIN, _LOCAL, _AT, _ADDRESS = range(4)


@dataclass(frozen=True)
class AddressPattern:
    """A pattern; ``text`` is as it was written. ValueError: too long, or with what is in no address."""

    text: str

    def __post_init__(self) -> None:
        if not _PATTERN_TEXT.fullmatch(self.text) or not self.text.isprintable():
            raise ValueError(
                f"must be 1 to {MAX_PATTERN_LENGTH} characters of an address, "
                "with * for any and ? for one character"
            )

    def matches(self, address: str) -> bool:
        """Whether it matches this address, in time linear in it times the number of ``*``."""
        return first_matching_pattern([self], address) == 0

    @property
    def matches_any_address(self) -> bool:
        """Whether there is an address that it matches."""
        return _has_address_outside(self, None) is not False

    def covers(self, other: AddressPattern) -> bool:
        """Whether it certainly matches every address that ``other`` matches."""
        if self._normalized_text == other._normalized_text:
            return True
        if not all(self.matches(word) for word in other._sample_addresses):
            return False  # cheaper, and what two patterns of a list mostly come to
        return _has_address_outside(other, self) is False

    @cached_property
    def _normalized_text(self) -> str:
        return re.sub(r"\*+", "*", self.text.lower())

    @cached_property
    def expression(self) -> re.Pattern[str]:
        """What matches an address in lower case."""
        # Its atomic groups give nothing back: many stars over a long address take no more than their product.
        return re.compile(fnmatch.translate(self._normalized_text.replace("[", "[[]")))

    @cached_property
    def _sample_addresses(self) -> list[str]:
        words = [
            self._normalized_text.replace("?", _OTHER_CHARACTER).replace("*", each)
            for each in ("", _OTHER_CHARACTER)
        ]
        return [word for word in words if self.matches(word)]

    @cached_property
    def _star_positions(self) -> int:
        return sum(1 << place for place, letter in enumerate(self._normalized_text) if letter == "*")

    @cached_property
    def _positions_by_character(self) -> dict[str, int]:
        """By letter, the places that it may be at; those of a letter that is not here are those of ``?``."""
        places: dict[str, int] = {}
        for letter in {*self._normalized_text, _OTHER_CHARACTER}:
            places[letter] = sum(
                1 << place for place, own in enumerate(self._normalized_text) if own in {letter, "?"}
            )
        return places

    @property
    def _start_states(self) -> int:
        return self._skip_stars(1)

    def _skip_stars(self, states: int) -> int:
        return states | (states & self._star_positions) << 1  # one step will do: no star follows another

    def _advance(self, states: int, letter: str) -> int:
        step = self._positions_by_character.get(letter, self._positions_by_character[_OTHER_CHARACTER])
        return self._skip_stars((states & step) << 1 | (states & self._star_positions))

    def _is_accepting(self, states: int) -> bool:
        return bool(states >> len(self._normalized_text) & 1)


def first_matching_pattern(patterns: Sequence[AddressPattern], address: str) -> int | None:
    """The place of the first pattern that matches this address; None where none does."""
    local, _, domain = address.rpartition("@")
    if not local or not domain:
        return None
    folded = address.lower()
    return next((place for place, each in enumerate(patterns) if each.expression.match(folded)), None)


def _has_address_outside(inner: AddressPattern, outer: AddressPattern | None) -> bool | None:
    """Whether some address matches ``inner`` but not ``outer`` (None matches nothing); None: not known."""
    alphabet = sorted(
        {"@", _OTHER_CHARACTER, *inner._normalized_text, *(outer._normalized_text if outer else "")} - {"*", "?"}
    )
    first = (inner._start_states, _BEGIN, outer._start_states if outer else _NO_STATES)
    seen, waiting = {first}, [first]
    while waiting:
        inside, progress, outside = waiting.pop()
        if progress == _ADDRESS and inner._is_accepting(inside) and not (outer and outer._is_accepting(outside)):
            return True
        if len(seen) > _MAX_STATES:
            return None
        for letter in alphabet:
            state = (
                inner._advance(inside, letter),
                _address_progress(progress, letter),
                outer._advance(outside, letter) if outer else _NO_STATES,
            )
            if state[0] and state not in seen:
                seen.add(state)
                waiting.append(state)
    return False


def _address_progress(state: int, letter: str) -> int:
    if state == _BEGIN:
        return _LOCAL
    if letter == "@":
        return _AT
    return _LOCAL if state == _LOCAL else _ADDRESS
