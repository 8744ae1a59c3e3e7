"""The stored form of an explanation, which stands directly after its message.

Rules: what is read is what was written, every float to the last bit. A clue that is a token of the message is
stored as the index of that token; the order of the clues is not stored, because it follows from the log-ratios.
The first byte is the version of the format. Numbers are stored as they are in memory, because every checked
message has an explanation and compressed JSON, the first format, took much longer to write (see
docs/experiments.md).
"""

from __future__ import annotations

import json
import math
import struct
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from nbstream.bayes.packed_clues import PackedClues, bytes_of_index
from nbstream.errors import StoreIncompatible
from nbstream.policy.explanation import CountedClue, CountedTokenClues, Explanation
from nbstream.policy.verdict import ModelState, Thresholds, Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

_FORMAT_VERSION = b"2"
_OLD_FORMAT_VERSION = b"1"
# time, P(spam), score, prior, bytes of JSON, number of clues that are tokens, bytes of a count
_HEAD_STRUCT = struct.Struct("<4dIIB")
_MAX_COUNT = 1 << 63
_ENCODE_JSON = json.JSONEncoder(separators=(",", ":")).encode


def pack_explanation(explanation: Explanation, tokens: Sequence[bytes]) -> bytes:
    """Return the stored form of an explanation of a message that has these distinct ``tokens``."""
    clues, others = _split_clues(explanation.clues, tokens)
    state, named_clues = explanation.state, [[clue.token.decode(), clue.ham, clue.spam] for clue in others]
    learned, needed = tuple(state.learned.items()), tuple(state.needed.items())
    lines = _state_line(explanation.verdict, explanation.reason, explanation.thresholds, learned, needed)
    lines += _ENCODE_JSON(named_clues).encode() if named_clues else b"[]"
    numbers = explanation.at, explanation.probability, explanation.score, explanation.prior
    return b"".join(
        [
            _FORMAT_VERSION,
            _HEAD_STRUCT.pack(*numbers, len(lines), clues.length, clues.count_bytes),
            lines,
            clues.content,
            struct.pack(f"<{len(others)}d", *(clue.log_ratio for clue in others)),
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


def _split_clues(
    clues: Sequence[CountedClue], tokens: Sequence[bytes]
) -> tuple[PackedClues, Sequence[CountedClue]]:
    """Return the clues of an explanation that are tokens of the message, and the others."""
    if isinstance(clues, CountedTokenClues):
        return clues.packed, ()
    names = {clue.token for clue in clues}
    indices = {token: index for index, token in enumerate(tokens) if token in names}
    # A token may have the name of a feature that has no counts: whoever wrote the message chose its header fields.
    token_clues = [clue for clue in clues if clue.token in indices and clue.ham is not None]
    others = [clue for clue in clues if clue.token not in indices or clue.ham is None]
    packed = PackedClues.pack(
        np.array([indices[clue.token] for clue in token_clues], np.intp),
        np.array([(clue.ham, clue.spam) for clue in token_clues], np.int64).reshape(-1, 2),
        np.array([clue.log_ratio for clue in token_clues], np.float64),
        len(tokens),
    )
    return packed, others


def _read_explanation(packed: bytes, tokens: Sequence[bytes]) -> Explanation:
    at, probability, score, prior, length, n, width = _HEAD_STRUCT.unpack_from(packed)
    numbers = packed[_HEAD_STRUCT.size + length :]
    state, named_clues = map(json.loads, packed[_HEAD_STRUCT.size :][:length].split(b"\n"))
    verdict, reason, thresholds, learned, needed = state
    _check_types(verdict, reason, thresholds, [*learned.values(), *needed.values()], named_clues)
    token_clues = PackedClues(numbers, n, bytes_of_index(len(tokens)), width)
    if len(numbers) != token_clues.size + 8 * len(named_clues):
        raise ValueError("more or less than was written")
    counts = token_clues.counts.tolist()
    rows: list[tuple[bytes, Any, Any]] = [
        (tokens[index], ham, spam)
        for index, (ham, spam) in zip(token_clues.token_indices.tolist(), counts, strict=True)
    ]
    rows += [(name.encode(), ham, spam) for name, ham, spam in named_clues]
    log_ratios = [
        *token_clues.ratios.tolist(),
        *struct.unpack_from(f"<{len(named_clues)}d", numbers, token_clues.size),
    ]
    if not all(map(math.isfinite, (at, probability, score, prior, *log_ratios))):
        raise ValueError("no number")
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


def _check_types(
    verdict: Any, reason: Any, thresholds: Any, learned_counts: Sequence[Any], named_clues: Sequence[Any]
) -> None:
    """Raise ``ValueError`` or ``TypeError`` where JSON has other values than ``pack_explanation`` writes."""
    Verdict(verdict)
    "".join([reason, thresholds[3]])
    counts = [*learned_counts, *(count for clue in named_clues for count in clue[1:] if count is not None)]
    if not all(isinstance(count, int) and abs(count) < _MAX_COUNT for count in counts):
        raise ValueError("no count")
