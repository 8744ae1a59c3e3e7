"""The numbers of clues in one byte string: their token indices, their counts and their log-ratios.

Rules: explanations store this form, and the native library writes it (``native/src/score/packed_clues.rs``), so
that the numbers of most messages are remembered without being unpacked. All of them are little-endian. First come
the indices of all clues, then the counts of each one, then the log-ratios of all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nbstream.bayes.counts import CLASSES

if TYPE_CHECKING:
    from numpy.typing import NDArray

_RATIO_BYTES = 8


@dataclass(frozen=True, slots=True)
class PackedClues:
    """The numbers of ``length`` clues in ``content``.

    An index takes ``index_bytes``, a count ``count_bytes``, and a log-ratio 8 bytes.
    """

    content: bytes
    length: int
    index_bytes: int
    count_bytes: int

    @classmethod
    def pack(
        cls,
        token_indices: NDArray[np.integer],
        counts: NDArray[np.integer],
        ratios: NDArray[np.float64],
        tokens: int,
    ) -> PackedClues:
        """Pack the clues of a message that has so many ``tokens``; ``counts`` has the shape (clues, classes).

        A count takes 4 bytes where all of them fit, else 8.
        """
        index_bytes = bytes_of_index(tokens)
        count_bytes = 4 if counts.min(initial=0) >= -(2**31) and counts.max(initial=0) < 2**31 else 8
        arrays = (
            token_indices.astype(f"<u{index_bytes}"),
            counts.astype(f"<i{count_bytes}"),
            ratios.astype("<f8"),
        )
        return cls(b"".join(array.tobytes() for array in arrays), len(token_indices), index_bytes, count_bytes)

    @property
    def token_indices(self) -> NDArray[np.integer]:
        """The indices of the tokens, shape (clues,)."""
        return np.frombuffer(self.content, f"<u{self.index_bytes}", self.length)

    @property
    def counts(self) -> NDArray[np.integer]:
        """The counts of the tokens, shape (clues, classes)."""
        start, count = self.index_bytes * self.length, len(CLASSES) * self.length
        return np.frombuffer(self.content, f"<i{self.count_bytes}", count, start).reshape(-1, len(CLASSES))

    @property
    def ratios(self) -> NDArray[np.float64]:
        """The log-ratios in nats, shape (clues,)."""
        return np.frombuffer(self.content, "<f8", self.length, self.size - _RATIO_BYTES * self.length)

    @property
    def size(self) -> int:
        """How many bytes ``content`` has."""
        return self.length * (self.index_bytes + len(CLASSES) * self.count_bytes + _RATIO_BYTES)


def bytes_of_index(tokens: int) -> int:
    """Return how many bytes an index takes in a message that has so many tokens."""
    return 1 if tokens <= 2**8 else 2 if tokens <= 2**16 else 4
