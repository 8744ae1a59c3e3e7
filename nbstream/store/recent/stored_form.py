"""The stored form of checked messages: compressed by Zstandard with a trained dictionary, then the explanation.

Rules: the dictionary is a part of the stored form: with another one, what is in Redis cannot be read. A later
dictionary therefore gets another identifier, which each compressed message names, and this one stays. What another
program wrote is refused where it cannot be read; that Redis holds what was written is not examined value by value.

``python -m tools.dictionary`` has trained the dictionary, on mail that was made up for it.

Of an explanation, what is read is what was written, every float to the last bit. A clue that is a token of the
message is stored as the index of that token; the order of the clues is not stored, because it follows from the
log-ratios. Numbers are stored as they are in memory, because every checked message has an explanation, and
compressed JSON takes ten times as long to write.
"""

from __future__ import annotations

import json
import struct
import threading
from functools import cache, lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING

import zstandard

from nbstream.bayes.clues import Clue, GroupTokens, PackedClues, TokenClues, bytes_of_index
from nbstream.bayes.novelty import Discount
from nbstream.errors import StoreIncompatible
from nbstream.policy.check import CountedTokenClues, Explanation
from nbstream.policy.verdict import ModelState, Thresholds, Verdict
from nbstream.store.model.ledger import MAX_UNPACKED_BYTES
from nbstream.tokens.token_groups import NOVELTY_GROUPS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nbstream.tokens.tokens import Tokens


DICTIONARY_ID = 32_769
"""The identifier of the dictionary; those below 32,768 are reserved by RFC 8878, 5."""

DICTIONARY_FILE = f"checked_messages_{DICTIONARY_ID}.dictionary"
"""The file of the dictionary, beside this module."""

ZSTD_LEVEL = 1
"""The level of compression. At level 3 messages of two corpora are smaller by 6 %, and take 1.4 times as long."""


class _ZstdContexts(threading.local):
    """A compressor and a decompressor for each thread: one of them does one thing at a time."""

    def __init__(self) -> None:
        self.compressor = zstandard.ZstdCompressor(level=ZSTD_LEVEL, dict_data=_dictionary())
        self.decompressor = zstandard.ZstdDecompressor(dict_data=_dictionary(), max_window_size=MAX_UNPACKED_BYTES)


@cache
def _dictionary() -> zstandard.ZstdCompressionDict:
    """Return the dictionary, prepared for compression once."""
    dictionary = zstandard.ZstdCompressionDict(files(__package__).joinpath(DICTIONARY_FILE).read_bytes())
    dictionary.precompute_compress(level=ZSTD_LEVEL)
    return dictionary


@cache
def _zstd() -> _ZstdContexts:
    return _ZstdContexts()


def compress(content: bytes) -> bytes:
    """Return ``content``, compressed by Zstandard."""
    return _zstd().compressor.compress(content)


COMPRESSES_AT_ONCE = "multi_compress_to_buffer" in zstandard.backend_features
"""Whether there is ``compress_at_once``: not where the library was built with a Zstandard of the system."""


def compress_at_once(contents: Sequence[bytes]) -> list[bytes]:
    """Return each of ``contents`` as ``compress`` does, by one call, in which other threads can run."""
    frames = _zstd().compressor.multi_compress_to_buffer([*contents])
    return [frames[i].tobytes() for i in range(len(frames))]


def decompress_first(packed: bytes) -> tuple[bytes, bytes]:
    """Return the content that ``packed`` begins with, and the bytes that follow it.

    Raises ``ValueError`` for what ``compress`` did not return.
    """
    try:
        frame = zstandard.get_frame_parameters(packed)
        if frame.content_size > MAX_UNPACKED_BYTES or frame.dict_id != DICTIONARY_ID:  # unknown is the largest one
            raise ValueError("too large, or compressed with another dictionary")
        decompressor = _zstd().decompressor.decompressobj()
        content = decompressor.decompress(packed)
    except zstandard.ZstdError as error:
        raise ValueError("damaged") from error
    if not decompressor.eof:
        raise ValueError("cut")
    return content, decompressor.unused_data


# time, P(spam), score, prior, bytes of JSON, number of clues that are tokens, bytes of a count
_HEAD_STRUCT = struct.Struct("<4dIIB")
_ENCODE_JSON = json.JSONEncoder(separators=(",", ":")).encode


def pack_explanation(explanation: Explanation) -> bytes:
    """Return the stored form of the explanation of a check: it has the indices of tokens, and not their names."""
    assert isinstance(explanation.clues, CountedTokenClues)
    clues, others = explanation.clues.clues.packed, explanation.clues.clues.others
    state = explanation.state
    learned, needed = tuple(state.learned.items()), tuple(state.needed.items())
    lines = _state_line(explanation.verdict, explanation.reason, explanation.thresholds, learned, needed)
    ratios = b""
    if others:
        lines += _ENCODE_JSON([clue.token.decode() for clue in others]).encode()
        ratios = struct.pack(f"<{len(others)}d", *(clue.log_ratio for clue in others))
    else:
        lines += b"[]"
    lines += b"\n" + _discount_line(explanation)
    numbers = explanation.at, explanation.probability, explanation.score, explanation.prior
    head = _HEAD_STRUCT.pack(*numbers, len(lines), clues.length, clues.count_bytes)
    return head + lines + clues.content + ratios


def _discount_line(explanation: Explanation) -> bytes:
    """Return the discount as a line of JSON, empty where there is none."""
    discount = explanation.discount
    if discount is None:
        return b""
    numbers = [explanation.full_probability, discount.log_odds, discount.full_log_odds, discount.deviations]
    return _ENCODE_JSON([*numbers, *discount.tokens.present, *discount.tokens.in_spam]).encode()


def _read_discount(line: bytes) -> tuple[float, Discount | None]:
    if not line:
        return 0.0, None
    full_probability, log_odds, full_log_odds, deviations, *tokens = json.loads(line)
    groups = GroupTokens(tuple(tokens[: len(NOVELTY_GROUPS)]), tuple(tokens[len(NOVELTY_GROUPS) :]))
    return full_probability, Discount(log_odds, full_log_odds, deviations, groups)


@lru_cache(maxsize=64)
def _state_line(
    verdict: str,
    reason: str,
    thresholds: Thresholds,
    learned: tuple[tuple[str, int], ...],
    needed: tuple[tuple[str, int], ...],
) -> bytes:
    """Return as a line of JSON what many explanations share; cached, as it would be half of the work."""
    limits = [thresholds.unsure, thresholds.spam, thresholds.reject, thresholds.guarantee, thresholds.guaranteed]
    return _ENCODE_JSON([verdict, reason, limits, dict(learned), dict(needed)]).encode() + b"\n"


def unpack_explanation(packed: bytes, tokens: Tokens) -> Explanation:
    """Return the explanation that ``pack_explanation`` packed of the message with these tokens.

    Raises ``StoreIncompatible`` for any other bytes.
    """
    try:
        return _read_explanation(packed, tokens)
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError, struct.error) as error:
        raise StoreIncompatible("an explanation cannot be read: another program wrote it") from error


def _read_explanation(packed: bytes, tokens: Tokens) -> Explanation:
    at, probability, score, prior, length, n, width = _HEAD_STRUCT.unpack_from(packed)
    numbers = packed[_HEAD_STRUCT.size + length :]
    state_line, clues_line, discount_line = packed[_HEAD_STRUCT.size :][:length].split(b"\n")
    state, names = json.loads(state_line), json.loads(clues_line)
    full_probability, discount = _read_discount(discount_line)
    verdict, reason, thresholds, learned, needed = state
    Verdict(verdict)  # or ValueError
    token_clues = PackedClues(numbers, n, bytes_of_index(len(tokens.all)), width)
    if len(numbers) != token_clues.size + 8 * len(names):
        raise ValueError("more or less than was written")
    ratios = struct.unpack_from(f"<{len(names)}d", numbers, token_clues.size)
    others = tuple(Clue(name.encode(), ratio) for name, ratio in zip(names, ratios, strict=True))
    clues = TokenClues(tokens, token_clues, (), others)
    if token_clues.token_indices.max(initial=0) >= max(1, len(tokens.all)):
        raise ValueError("no token")
    return Explanation(
        at=at,
        verdict=verdict,
        reason=reason,
        probability=probability,
        score=score,
        prior=prior,
        thresholds=Thresholds(*thresholds),
        state=ModelState(learned, needed),
        clues=CountedTokenClues(clues),
        discount=discount,
        full_probability=full_probability,
    )
