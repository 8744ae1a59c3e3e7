"""The stored form of the explanations of checked messages.

Rules: what another program wrote is refused where it cannot be read; that Redis holds what was written is not
examined value by value.

Of an explanation, what is read is what was written, every float to the last bit. A clue that is a token of the
message is stored as the index of that token; the order of the clues is not stored, because it follows from the
log-ratios. Numbers are stored as they are in memory, because every checked message has an explanation, and
compressed JSON takes ten times as long to write.
"""

from __future__ import annotations

import json
import struct
from functools import lru_cache
from typing import TYPE_CHECKING

from nbstream.bayes.clues import Clue, GroupTokens, PackedClues, TokenClues, bytes_of_index
from nbstream.bayes.novelty import Discount
from nbstream.errors import StoreIncompatible
from nbstream.policy.check import CountedTokenClues, Explanation
from nbstream.policy.verdict import ModelState, Thresholds, Verdict
from nbstream.tokens.token_groups import NOVELTY_GROUPS

if TYPE_CHECKING:
    from nbstream.tokens.tokens import Tokens


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
