"""The score of a message in one call of the native library. See ``native/src/score``."""

from __future__ import annotations

import ctypes
import struct
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from nbstream.engine.table import pointer_to
from nbstream.numpy_on_demand import np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from nbstream.engine.table import Table


# nbn_score_request: the sizes of the groups, how tokens are scored, and what P(spam) depends on
_SIZES, _OPTIONS, _CALIBRATION = struct.Struct("=3Q"), struct.Struct("=3Q3q4d"), struct.Struct("=9d2Q")
NO_CALIBRATION = bytes(_CALIBRATION.size)
"""Without pairs the library computes no P(spam)."""
_OWN_COUNTS = struct.Struct("=2Q2d")  # nbn_own_counts
# A score begins with the log-odds, the four doubles of ``NativeLikelihood``, and how many bytes an index, a count
# and all names take. Then it has how many tokens of each of the 4 groups of ``tokens.token_groups`` there are, and
# how many of these spam has had.
_NUMBERS, _GROUP_TOKENS = struct.Struct("<5d3I"), struct.Struct("<4I")
_HEAD_BYTES = _NUMBERS.size + 2 * _GROUP_TOKENS.size
_COUNTS, _RATIO_BYTES, _PLACE_BYTES, _NAME_BYTES = 2, 8, 2, 65  # of each clue, at most
_MAX_CLUE_BYTES = 4 + _COUNTS * 8 + _RATIO_BYTES + _PLACE_BYTES + _NAME_BYTES

GroupNumbers: TypeAlias = tuple[int, int, int]
"""A number for each group of tokens: head, body, and the header as it is written."""

OwnLevel: TypeAlias = "tuple[NDArray[np.int64], tuple[float, float]]"
"""The counts of a message's tokens in an own model, and which count of ham and of spam is one occurrence."""


NativeLikelihood: TypeAlias = tuple[float, float, float, float]
"""P(spam), P(spam) without the discount, the log-odds with it, and the deviations of the novelty.

The deviations are 0 where there is no discount.
"""


class NativeScore(NamedTuple):
    """The score of a message: its ``log_odds`` in nats, and what ``bayes.clues`` names.

    ``clues`` has the fields of ``PackedClues``, and ``group_tokens`` those of ``GroupTokens``. ``ranking`` is that
    of ``TokenClues``. ``likelihood`` is None where the library had no calibration.
    """

    log_odds: float
    clues: tuple[bytes, int, int, int]
    ranking: bytes
    group_tokens: tuple[tuple[int, ...], ...]
    likelihood: NativeLikelihood | None


def pack_options(
    limits: GroupNumbers,
    tokens: tuple[int, ...],
    vocabulary: int,
    alpha: float,
    prior: float,
    strength: tuple[float, float] = (0.0, 0.0),
) -> bytes:
    """Return how messages are scored by a model with these totals: ``tokens`` of ham and spam, the ``vocabulary``.

    ``limits`` are how many tokens of each group vote for a class, at most. ``prior`` is the prior log-odds of spam
    in nats, ``alpha`` that of Lidstone, ``strength`` the first two of ``bayes.classifier.PriorStrength``.
    """
    return _OPTIONS.pack(*limits, *tokens, vocabulary, alpha, prior, *strength)


def pack_calibration(
    pairs: NDArray[np.float64],
    divisor: float,
    bounds: tuple[float, float],
    novelty: tuple[float, float, tuple[float, ...]],
) -> bytes:
    """Return what P(spam) depends on besides the score; the caller keeps ``pairs`` as long as it is in use.

    ``pairs`` are those of ``Calibration.pairs``, in C order. ``divisor`` is what the log-odds are divided by,
    ``bounds`` are the least and the greatest P(spam), and ``novelty`` is that of labelled spam: mean, deviation,
    and mean tokens.
    """
    mean, deviation, tokens = novelty
    return _CALIBRATION.pack(divisor, *bounds, mean, deviation, *tokens, pairs.ctypes.data, len(pairs))


class NativeScoring:
    """Scores messages, one after another, with at most ``clues`` clues."""

    def __init__(self, library: ctypes.CDLL, clues: int) -> None:
        pointer, size, blob = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p
        self._in_table = library.nbn_score_in_table
        self._in_table.argtypes = [pointer, blob, size, blob, blob, size, blob, size]
        self._rows = library.nbn_score_rows
        self._rows.argtypes = [blob, size, pointer, size, blob, blob, size, blob, size]
        self._in_table.restype = self._rows.restype = ctypes.c_int64
        self._out = ctypes.create_string_buffer(_HEAD_BYTES + _MAX_CLUE_BYTES * clues)
        self._view = memoryview(self._out)

    def score_in_table(
        self,
        table: Table,
        joined: bytes,
        sizes: GroupNumbers,
        options: bytes,
        own: Sequence[OwnLevel] = (),
        calibration: bytes = NO_CALIBRATION,
    ) -> NativeScore | None:
        """Return the score of the tokens in ``joined`` by their counts in ``table``, and those in ``own`` models.

        ``sizes`` says how many tokens each group has. Returns None where Python has to do it: a number is too
        large or too small for a float, or the table cannot be read.
        """
        levels = [_contiguous(rows) for rows, _ in own] if own else []
        packed_own = _pack_own(own, levels) if own else b""
        request, out = _SIZES.pack(*sizes) + options + calibration, self._out
        clues = self._in_table(table.handle, joined, len(joined), request, packed_own, len(own), out, len(out))
        return self._unpack(clues)

    def score_rows(
        self,
        counts: NDArray[np.int64],
        joined: bytes,
        sizes: GroupNumbers,
        options: bytes,
        own: Sequence[OwnLevel] = (),
        calibration: bytes = NO_CALIBRATION,
    ) -> NativeScore | None:
        """Return the score of the tokens in ``joined`` by their ``counts``, shape (tokens, classes)."""
        rows, levels = _contiguous(counts), [_contiguous(of_level) for of_level, _ in own]
        clues = self._rows(
            *(joined, len(joined), pointer_to(rows), len(rows), _SIZES.pack(*sizes) + options + calibration),
            *(_pack_own(own, levels), len(own), self._out, len(self._out)),
        )
        return self._unpack(clues)

    def _unpack(self, clues: int) -> NativeScore | None:
        if clues < 0:
            return None
        numbers = _NUMBERS.unpack_from(self._out)
        log_odds, probability, full, left, deviations, index_bytes, count_bytes, name_bytes = numbers
        group_tokens = tuple(_GROUP_TOKENS.iter_unpack(self._view[_NUMBERS.size : _HEAD_BYTES]))
        end = _HEAD_BYTES + clues * (index_bytes + _COUNTS * count_bytes + _RATIO_BYTES)
        packed = bytes(self._view[_HEAD_BYTES:end])
        ranking = bytes(self._view[end : end + clues * _PLACE_BYTES + name_bytes])
        return NativeScore(
            log_odds,
            (packed, clues, index_bytes, count_bytes),
            ranking,
            group_tokens,
            (probability, full, left, deviations) if probability else None,
        )


def _contiguous(rows: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.ascontiguousarray(rows, np.int64)


def _pack_own(own: Sequence[OwnLevel], rows: Sequence[NDArray[np.int64]]) -> bytes:
    """Return the array of levels for the library; the caller keeps ``rows`` until the library has answered."""
    return b"".join(
        _OWN_COUNTS.pack(of_level.ctypes.data, len(of_level), *units)
        for (_, units), of_level in zip(own, rows, strict=True)
    )


class NativePosterior:
    """Computes the posterior of the calibration over ``pairs`` pairs of temperature and bias.

    ``grid`` is that of ``nbn_posterior``. See ``native/src/score/calibration.rs``.
    """

    def __init__(self, library: ctypes.CDLL, grid: NDArray[np.float64], pairs: int) -> None:
        pointer, size = ctypes.c_void_p, ctypes.c_size_t
        self._function = library.nbn_posterior
        self._function.argtypes = [pointer, size, pointer, size, ctypes.c_double, pointer]
        self._function.restype = ctypes.c_int64
        self._grid = np.ascontiguousarray(grid)
        self._pointer_to_grid = pointer_to(self._grid)
        self._pairs = pairs

    def __call__(self, counts: NDArray[np.int64], evidence: float) -> NDArray[np.float64] | None:
        """Return the share, the bias and twice the temperature of each pair that counts, shape (pairs, 3).

        ``counts`` are of each bin, shape (bins, classes); ``evidence`` is how much one of them says. Returns None
        where Python has to compute it.
        """
        rows, out = _contiguous(counts), np.empty((self._pairs, 3))
        written = self._function(
            *(self._pointer_to_grid, self._pairs, pointer_to(rows), len(rows), evidence, pointer_to(out))
        )
        return out[:written] if written >= 0 else None
