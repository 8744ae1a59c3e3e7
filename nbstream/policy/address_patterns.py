"""Shell-like patterns over whole mail addresses, and the question whether one pattern covers another.

Rules: ``*`` stands for any characters, ``?`` for one character, and every other character for itself. Upper and
lower case are the same. An address has something before its last ``@``, and behind it something without ``@``; no
pattern matches anything else.

A pattern is a small automaton: bit i of an integer says that its first i characters are matched. To compare two
patterns, both automata run side by side over all words of these characters: the characters of both patterns,
``@``, and one character that is in neither. A search that is not finished within ``_MAX_STATES`` states counts as
"not covered". Therefore a pattern that is said to be covered is covered.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

MAX_PATTERN_LENGTH = 320
"""The longest pattern: an address has at most 64 characters, an ``@`` and 255 characters (RFC 5321 4.5.3.1)."""

_PATTERN_TEXT = re.compile(rf"[^\s<>\x00-\x1f\x7f]{{1,{MAX_PATTERN_LENGTH}}}")
_MAX_STATES = 5000
_OTHER_CHARACTER = "\0"  # it is in no pattern, and stands for all characters that neither of two patterns has
_NO_STATES = 0

# How much of an address a word has so far: nothing, a local part, also an @, also a domain.
_BEGIN, _LOCAL, _AT, _ADDRESS = range(4)


@dataclass(frozen=True)
class AddressPattern:
    """A pattern of addresses. ``text`` is the pattern as it was written.

    Raises ValueError for a pattern that is too long, or has characters that no address has.
    """

    text: str

    def __post_init__(self) -> None:
        if not _PATTERN_TEXT.fullmatch(self.text) or not self.text.isprintable():
            raise ValueError(
                f"must be 1 to {MAX_PATTERN_LENGTH} characters of an address, "
                "with * for any and ? for one character"
            )

    def matches(self, address: str) -> bool:
        """Whether the pattern matches ``address``. The time is linear in its length times the number of ``*``."""
        return first_matching_pattern([self], address) == 0

    @property
    def matches_any_address(self) -> bool:
        """Whether there is an address that the pattern matches."""
        return _has_address_outside(self, None) is not False

    def covers(self, other: AddressPattern) -> bool:
        """Whether the pattern certainly matches every address that ``other`` matches."""
        if self._normalized_text == other._normalized_text:
            return True
        if not all(self.matches(word) for word in other._sample_addresses):
            return False  # this is cheaper, and it decides most pairs of a list
        return _has_address_outside(other, self) is False

    @cached_property
    def _normalized_text(self) -> str:
        return re.sub(r"\*+", "*", self.text.lower())

    @cached_property
    def expression(self) -> re.Pattern[str]:
        """The regular expression that matches an address in lower case."""
        # Its atomic groups give nothing back: many stars over a long address take no more than their product.
        return re.compile(fnmatch.translate(self._normalized_text.replace("[", "[[]")))

    @cached_property
    def _sample_addresses(self) -> list[str]:
        words = [
            self._normalized_text.replace("?", _OTHER_CHARACTER).replace("*", characters)
            for characters in ("", _OTHER_CHARACTER)
        ]
        return [word for word in words if self.matches(word)]

    @cached_property
    def _star_positions(self) -> int:
        return sum(1 << i for i, letter in enumerate(self._normalized_text) if letter == "*")

    @cached_property
    def _positions_by_character(self) -> dict[str, int]:
        """The positions in the pattern, as bits, where each character may stand.

        A character that the pattern does not have may stand where ``_OTHER_CHARACTER`` may: at each ``?``.
        """
        positions: dict[str, int] = {}
        for letter in {*self._normalized_text, _OTHER_CHARACTER}:
            positions[letter] = sum(
                1 << i for i, own_letter in enumerate(self._normalized_text) if own_letter in {letter, "?"}
            )
        return positions

    @property
    def _start_states(self) -> int:
        return self._skip_stars(1)

    def _skip_stars(self, states: int) -> int:
        return states | (states & self._star_positions) << 1  # one step is enough: no star follows another

    def _advance(self, states: int, letter: str) -> int:
        positions = self._positions_by_character.get(letter, self._positions_by_character[_OTHER_CHARACTER])
        return self._skip_stars((states & positions) << 1 | (states & self._star_positions))

    def _is_accepting(self, states: int) -> bool:
        return bool(states >> len(self._normalized_text) & 1)


_KELVIN_SIGN = "\N{KELVIN SIGN}"


def lower_case(address: str) -> str:
    """Return an address in lower case: two addresses with the same one belong to the same user.

    The Kelvin sign stays: it alone of all characters beyond ASCII has a lower case in ASCII, and a mail server
    need not take it for a k.
    """
    return _KELVIN_SIGN.join(map(str.lower, address.split(_KELVIN_SIGN)))


def first_matching_pattern(patterns: Sequence[AddressPattern], address: str) -> int | None:
    """Return the index of the first pattern that matches ``address``, or None where none does."""
    local, _, domain = address.rpartition("@")
    if not local or not domain:
        return None
    lower_case = address.lower()
    return next((i for i, pattern in enumerate(patterns) if pattern.expression.match(lower_case)), None)


def _has_address_outside(inner: AddressPattern, outer: AddressPattern | None) -> bool | None:
    """Whether some address matches ``inner`` but not ``outer``. An ``outer`` of None matches nothing.

    Returns None where the search is not finished within ``_MAX_STATES`` states.
    """
    alphabet = sorted(
        {"@", _OTHER_CHARACTER, *inner._normalized_text, *(outer._normalized_text if outer else "")} - {"*", "?"}
    )
    first = (inner._start_states, _BEGIN, outer._start_states if outer else _NO_STATES)
    seen, waiting = {first}, [first]
    while waiting:
        inner_states, progress, outer_states = waiting.pop()
        is_in_outer = outer is not None and outer._is_accepting(outer_states)
        if progress == _ADDRESS and inner._is_accepting(inner_states) and not is_in_outer:
            return True
        if len(seen) > _MAX_STATES:
            return None
        for letter in alphabet:
            state = (
                inner._advance(inner_states, letter),
                _address_progress(progress, letter),
                outer._advance(outer_states, letter) if outer else _NO_STATES,
            )
            if state[0] and state not in seen:
                seen.add(state)
                waiting.append(state)
    return False


def _address_progress(progress: int, letter: str) -> int:
    if progress == _BEGIN:
        return _LOCAL
    if letter == "@":
        return _AT
    return _LOCAL if progress == _LOCAL else _ADDRESS
