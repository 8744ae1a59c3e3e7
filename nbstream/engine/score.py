"""The score of a message in one call of the native library. See ``native/src/score``."""

from __future__ import annotations

import ctypes
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from nbstream.engine.table import Table

_CLASSES = 2
_REQUEST = struct.Struct("=6Q2q3d")  # nbn_score_request
_TOTALS = struct.Struct("=5q")
_HEAD_WORDS = 6
_WORDS_PER_CLUE = 4
_MESSAGES_CHANGED = -8

GroupNumbers: TypeAlias = tuple[int, int, int]
"""A number for each group of tokens: head, body, and the header as it is written."""


@dataclass(frozen=True, slots=True)
class ScoreOptions:
    """How messages are scored once the model has learned so many ``messages`` of ham and spam.

    ``limits`` are how many tokens of each group vote for a class, at most. ``prior`` is the prior log-odds of spam
    in nats, ``alpha`` that of Lidstone.
    """

    messages: tuple[int, ...]
    limits: GroupNumbers
    alpha: float
    prior: float


@dataclass(frozen=True, slots=True)
class NativeScore:
    """The score of a message: the ``indices`` of its clues in ascending order, their ``ratios`` and counts.

    ``rows`` are the counts, shape (clues, classes). The log-odds and the ratios are in nats. ``totals`` are the
    learned messages of ham and spam, their tokens, and the size of the vocabulary.
    """

    log_odds: float
    indices: NDArray[np.int64]
    ratios: NDArray[np.float64]
    rows: NDArray[np.int64]
    totals: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class MessagesChanged:
    """The options are for another number of learned messages than that of ``totals``."""

    totals: tuple[int, ...]


class NativeScoring:
    """Scores messages, one after another, with at most ``clues`` clues."""

    def __init__(self, library: ctypes.CDLL, clues: int) -> None:
        pointer, size, blob = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p
        self._in_table = library.nbn_score_in_table
        self._in_table.argtypes = [pointer, blob, size, blob, pointer, size]
        self._rows = library.nbn_score_rows
        self._rows.argtypes = [blob, size, pointer, size, blob, blob, pointer, size]
        self._in_table.restype = self._rows.restype = ctypes.c_int64
        self._clues = clues
        self._words = np.zeros(_HEAD_WORDS + _WORDS_PER_CLUE * clues, np.int64)
        self._floats = self._words.view(np.float64)
        self._address = self._words.ctypes.data

    def score_in_table(
        self, table: Table, joined: bytes, sizes: GroupNumbers, options: ScoreOptions, unit: float
    ) -> NativeScore | MessagesChanged | None:
        """Return the score of the tokens in ``joined`` by their counts in ``table``.

        ``sizes`` says how many tokens each group has; ``unit`` is the count of one occurrence. Returns None where
        Python has to do it: a number is too large or too small for a float, or the table cannot be read.
        """
        request = _pack(sizes, options, unit)
        return self._unpack(self._in_table(table.handle, joined, len(joined), request, self._address, self._clues))

    def score_rows(
        self,
        rows: NDArray[np.int64],
        totals: Sequence[int],
        joined: bytes,
        sizes: GroupNumbers,
        options: ScoreOptions,
        unit: float,
    ) -> NativeScore | MessagesChanged | None:
        """Return the score of the tokens in ``joined`` by their counts in ``rows``, shape (tokens, classes)."""
        rows = np.ascontiguousarray(rows, np.int64)
        return self._unpack(
            self._rows(
                joined,
                len(joined),
                rows.ctypes.data,
                len(rows),
                _TOTALS.pack(*totals),
                _pack(sizes, options, unit),
                self._address,
                self._clues,
            )
        )

    def _unpack(self, clues: int) -> NativeScore | MessagesChanged | None:
        words, start = self._words, _HEAD_WORDS
        if clues < 0:
            return MessagesChanged(tuple(words[:5].tolist())) if clues == _MESSAGES_CHANGED else None
        first_ratio, first_row = start + self._clues, start + 2 * self._clues
        return NativeScore(
            float(self._floats[start - 1]),
            words[start : start + clues].copy(),
            self._floats[first_ratio : first_ratio + clues].copy(),
            words[first_row : first_row + _CLASSES * clues].reshape(clues, _CLASSES).copy(),
            tuple(words[:5].tolist()),
        )


def _pack(sizes: GroupNumbers, options: ScoreOptions, unit: float) -> bytes:
    return _REQUEST.pack(*sizes, *options.limits, *options.messages, options.alpha, unit, options.prior)
