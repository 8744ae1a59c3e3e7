"""An explanation as it is stored, behind the message that it is about.

Rules: what is read is what was written, every float to the last bit. A clue that is a token of the message is kept
as its place among them, without order: that is found again from the ratios. The first byte is the format. Numbers
are kept as they are in memory: as compressed JSON, the format of before, they were as large and took ten times as
long to write; and every checked message has an explanation.
"""

from __future__ import annotations

import json
import struct
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
_HEAD_STRUCT = struct.Struct(
    "<4dIIB"
)  # time, P(spam), score, prior, bytes of words, clues that are tokens, bytes a count
_ENCODE_JSON = json.JSONEncoder(separators=(",", ":")).encode


def pack_explanation(explanation: Explanation, tokens: Sequence[bytes]) -> bytes:
    """As it is stored, behind a message that has these distinct ``tokens``."""
    clues = explanation.clues
    named: list[CountedClue] = []
    if isinstance(clues, CountedTokenClues):
        places, counts, ratios = clues.clues.token_indices, clues.counts, clues.clues.ratios
    else:
        places, counts, ratios, named = _split_clues(clues, tokens)
    state, others = explanation.state, [[clue.token.decode(), clue.ham, clue.spam] for clue in named]
    learned, needed = tuple(state.learned.items()), tuple(state.needed.items())
    words = _state_line(explanation.verdict, explanation.reason, explanation.thresholds, learned, needed)
    words += _ENCODE_JSON(others).encode() if others else b"[]"
    width = 4 if counts.min(initial=0) >= -(2**31) and counts.max(initial=0) < 2**31 else 8
    numbers = explanation.at, explanation.probability, explanation.score, explanation.prior
    return b"".join(
        [
            _FORMAT_VERSION,
            _HEAD_STRUCT.pack(*numbers, len(words), len(places), width),
            words,
            places.astype(_index_type(tokens)).tobytes(),
            counts.astype(f"<i{width}").tobytes(),
            ratios.astype("<f8").tobytes(),
        ]
    )


@lru_cache(maxsize=64)
def _state_line(
    verdict: str,
    reason: str,
    at: Thresholds,
    learned: tuple[tuple[str, int], ...],
    needed: tuple[tuple[str, int], ...],
) -> bytes:
    """What is the same for many messages, as a line; to write it anew takes as long as all the rest."""
    thresholds = [at.unsure, at.spam, at.reject, at.promise, at.promised]
    return _ENCODE_JSON([verdict, reason, thresholds, dict(learned), dict(needed)]).encode() + b"\n"


def unpack_explanation(packed: bytes, tokens: Sequence[bytes]) -> Explanation | None:
    """What ``pack_explanation`` packed with the same tokens; None for what an older version packed.

    Raises ``StoreIncompatible`` for what is of another format.
    """
    if packed.startswith(_OLD_FORMAT_VERSION):
        return None
    if packed.startswith(_FORMAT_VERSION):
        try:
            return _read_explanation(packed[len(_FORMAT_VERSION) :], tokens)
        except (ValueError, TypeError, LookupError, AttributeError, struct.error):
            pass
    raise StoreIncompatible("an explanation cannot be read: another version of nbstream wrote it")


def _split_clues(
    clues: Sequence[CountedClue], tokens: Sequence[bytes]
) -> tuple[NDArray[np.intp], NDArray[np.int64], NDArray[np.float64], list[CountedClue]]:
    """Places and counts of the clues that are tokens, the ratios of these and of the others, and the others."""
    votes = {clue.token for clue in clues}
    places = {token: place for place, token in enumerate(tokens) if token in votes}
    # A token may have the name of a feature that has no counts: whoever wrote the message chose its header fields.
    found = [clue for clue in clues if clue.token in places and clue.ham is not None]
    others = [clue for clue in clues if clue.token not in places or clue.ham is None]
    counts = np.array([(clue.ham, clue.spam) for clue in found], np.int64).reshape(-1, 2)
    ratios = np.array([clue.log_ratio for clue in (*found, *others)], np.float64)
    return np.array([places[clue.token] for clue in found], np.intp), counts, ratios, others


def _read_explanation(packed: bytes, tokens: Sequence[bytes]) -> Explanation:
    at, probability, score, prior, length, n, width = _HEAD_STRUCT.unpack_from(packed)
    numbers = packed[_HEAD_STRUCT.size + length :]
    words, named = map(json.loads, packed[_HEAD_STRUCT.size :][:length].split(b"\n"))
    verdict, reason, thresholds, learned, needed = words
    kinds = [(_index_type(tokens), n), (f"<i{width}", 2 * n), ("<f8", n + len(named))]
    places, counts, ratios = _read_arrays(numbers, kinds)
    rows = zip(counts[::2], counts[1::2], strict=True)
    found: list[tuple[bytes, Any, Any]] = [(tokens[place], *row) for place, row in zip(places, rows, strict=True)]
    found += [(name.encode(), ham, spam) for name, ham, spam in named]
    clues = [CountedClue(token, ratio, *row) for (token, *row), ratio in zip(found, ratios, strict=True)]
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


def _read_arrays(packed: bytes, kinds: Sequence[tuple[str, int]]) -> list[list[Any]]:
    """So many numbers of each type, and nothing behind them; ``ValueError`` where that is not so."""
    arrays = []
    for kind, count in kinds:
        arrays.append(np.frombuffer(packed, kind, count).tolist())
        packed = packed[np.dtype(kind).itemsize * count :]
    if packed:
        raise ValueError("more than was written")
    return arrays


def _index_type(tokens: Sequence[bytes]) -> str:
    return "u1" if len(tokens) <= 2**8 else "<u2" if len(tokens) <= 2**16 else "<u4"
