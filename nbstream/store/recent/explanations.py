"""The stored form of an explanation, which stands directly after its message.

Rules: what is read is what was written, every float to the last bit. A clue that is a token of the message is
stored as the index of that token; the order of the clues is not stored, because it follows from the log-ratios.
The first byte is the version of the format. Numbers are stored as they are in memory, because every checked
message has an explanation and compressed JSON, the first format, took much longer to write (see
docs/experiments.md).
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from nbstream.errors import StoreIncompatible
from nbstream.policy.explanation import CountedClue, CountedTokenClues, Explanation
from nbstream.policy.verdict import ModelState, Thresholds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_FORMAT_VERSION = b"2"
_OLD_FORMAT_VERSION = b"1"
# time, P(spam), score, prior, bytes of JSON, number of clues that are tokens, bytes of a count
_HEAD_STRUCT = struct.Struct("<4dIIB")
_ENCODE_JSON = json.JSONEncoder(separators=(",", ":")).encode


def pack_explanation(explanation: Explanation, tokens: Sequence[bytes]) -> bytes:
    """Return the stored form of an explanation of a message that has these distinct ``tokens``."""
    clues = _split_clues(explanation.clues, tokens)
    state, named_clues = explanation.state, [[clue.token.decode(), clue.ham, clue.spam] for clue in clues.others]
    learned, needed = tuple(state.learned.items()), tuple(state.needed.items())
    lines = _state_line(explanation.verdict, explanation.reason, explanation.thresholds, learned, needed)
    lines += _ENCODE_JSON(named_clues).encode() if named_clues else b"[]"
    counts = clues.counts
    width = 4 if counts.min(initial=0) >= -(2**31) and counts.max(initial=0) < 2**31 else 8
    numbers = explanation.at, explanation.probability, explanation.score, explanation.prior
    return b"".join(
        [
            _FORMAT_VERSION,
            _HEAD_STRUCT.pack(*numbers, len(lines), len(clues.token_indices), width),
            lines,
            clues.token_indices.astype(_index_type(tokens)).tobytes(),
            counts.astype(f"<i{width}").tobytes(),
            clues.log_ratios.astype("<f8").tobytes(),
        ]
    )


@lru_cache(maxsize=64)
def _state_line(
    verdict: str,
    reason: str,
    thresholds: Thresholds,
    learned: tuple[tuple[str, int], ...],
    needed: tuple[tuple[str, int], ...],
) -> bytes:
    """Return as a line of JSON what many explanations share; cached, as it would be half of the work."""
    limits = [thresholds.unsure, thresholds.spam, thresholds.reject, thresholds.promise, thresholds.promised]
    return _ENCODE_JSON([verdict, reason, limits, dict(learned), dict(needed)]).encode() + b"\n"


def unpack_explanation(packed: bytes, tokens: Sequence[bytes]) -> Explanation | None:
    """Return the explanation that ``pack_explanation`` packed with the same tokens.

    Returns None for the format of an older version; raises ``StoreIncompatible`` for any other format.
    """
    if packed.startswith(_OLD_FORMAT_VERSION):
        return None
    if packed.startswith(_FORMAT_VERSION):
        try:
            return _read_explanation(packed[len(_FORMAT_VERSION) :], tokens)
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError, struct.error):
            pass
    raise StoreIncompatible("an explanation cannot be read: another version of nbstream wrote it")


@dataclass(frozen=True, slots=True)
class _SplitClues:
    """The clues of an explanation, divided into tokens of the message and others.

    ``token_indices`` (clues,) and ``counts`` (clues, classes) are of the clues that are tokens; ``log_ratios`` are
    of these first, then of ``others``.
    """

    token_indices: NDArray[np.intp]
    counts: NDArray[np.int64]
    log_ratios: NDArray[np.float64]
    others: Sequence[CountedClue] = ()


def _split_clues(clues: Sequence[CountedClue], tokens: Sequence[bytes]) -> _SplitClues:
    if isinstance(clues, CountedTokenClues):
        return _SplitClues(clues.clues.token_indices, clues.counts, clues.clues.ratios)
    names = {clue.token for clue in clues}
    indices = {token: index for index, token in enumerate(tokens) if token in names}
    # A token may have the name of a feature that has no counts: whoever wrote the message chose its header fields.
    token_clues = [clue for clue in clues if clue.token in indices and clue.ham is not None]
    others = [clue for clue in clues if clue.token not in indices or clue.ham is None]
    return _SplitClues(
        np.array([indices[clue.token] for clue in token_clues], np.intp),
        np.array([(clue.ham, clue.spam) for clue in token_clues], np.int64).reshape(-1, 2),
        np.array([clue.log_ratio for clue in (*token_clues, *others)], np.float64),
        others,
    )


def _read_explanation(packed: bytes, tokens: Sequence[bytes]) -> Explanation:
    at, probability, score, prior, length, n, width = _HEAD_STRUCT.unpack_from(packed)
    numbers = packed[_HEAD_STRUCT.size + length :]
    state, named_clues = map(json.loads, packed[_HEAD_STRUCT.size :][:length].split(b"\n"))
    verdict, reason, thresholds, learned, needed = state
    types_and_counts = [(_index_type(tokens), n), (f"<i{width}", 2 * n), ("<f8", n + len(named_clues))]
    token_indices, counts, log_ratios = _read_arrays(numbers, types_and_counts)
    counts_of_tokens = zip(token_indices, counts[::2], counts[1::2], strict=True)
    rows: list[tuple[bytes, Any, Any]] = [(tokens[index], ham, spam) for index, ham, spam in counts_of_tokens]
    rows += [(name.encode(), ham, spam) for name, ham, spam in named_clues]
    clues = [
        CountedClue(token, log_ratio, ham, spam)
        for (token, ham, spam), log_ratio in zip(rows, log_ratios, strict=True)
    ]
    return Explanation(
        at=at,
        verdict=verdict,
        reason=reason,
        probability=probability,
        score=score,
        prior=prior,
        thresholds=Thresholds(*thresholds),
        state=ModelState(learned, needed),
        clues=tuple(sorted(clues, key=lambda clue: (-abs(clue.log_ratio), clue.token))),
    )


def _read_arrays(packed: bytes, types_and_counts: Sequence[tuple[str, int]]) -> list[list[Any]]:
    """Return arrays of these numpy types and lengths; raise ``ValueError`` if ``packed`` has another size."""
    arrays = []
    for number_type, count in types_and_counts:
        arrays.append(np.frombuffer(packed, number_type, count).tolist())
        packed = packed[np.dtype(number_type).itemsize * count :]
    if packed:
        raise ValueError("more than was written")
    return arrays


def _index_type(tokens: Sequence[bytes]) -> str:
    return "u1" if len(tokens) <= 2**8 else "<u2" if len(tokens) <= 2**16 else "<u4"
