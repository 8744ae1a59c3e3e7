"""An explanation as it is stored, behind the message that it is about.

Rules: what is read is what was written, every float to the last bit. A clue that is a token of the message is kept
as its place among them. The first byte is the format; of the first 1,000 messages of trec07p, each learned, an
explanation takes 0.9 kB, 0.09 ms to pack and 0.07 ms to make before.
"""

from __future__ import annotations

import json
import struct
import zlib
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from nbstream.errors import StoreIncompatible
from nbstream.policy.explanation import CountedClue, Explanation
from nbstream.policy.verdict import ModelState, Thresholds

if TYPE_CHECKING:
    from collections.abc import Sequence

_FORMAT = b"1"
_LEVEL = 1  # as in the ledger


def pack(explanation: Explanation, tokens: Sequence[bytes]) -> bytes:
    """As it is stored, behind a message that has these distinct ``tokens``."""
    clues = explanation.clues
    voted = {clue.token for clue in clues}
    places = {token: place for place, token in enumerate(tokens) if token in voted}
    fields = {
        "at": explanation.at,
        "verdict": explanation.verdict,
        "reason": explanation.reason,
        "probability": explanation.probability,
        "score": explanation.score,
        "prior": explanation.prior,
        "thresholds": asdict(explanation.thresholds),
        "learned": dict(explanation.state.learned),
        "needed": dict(explanation.state.needed),
        "clues": [places.get(clue.token, clue.token.decode()) for clue in clues],
        "ham": [clue.ham for clue in clues],
        "spam": [clue.spam for clue in clues],
    }
    # The ratios as they are in memory: as digits they are not smaller, and take 0.05 ms more to write.
    ratios = struct.pack(f"<{len(clues)}d", *(clue.log_ratio for clue in clues))
    return _FORMAT + zlib.compress(json.dumps(fields, separators=(",", ":")).encode(), _LEVEL) + ratios


def unpack(packed: bytes, tokens: Sequence[bytes]) -> Explanation:
    """What ``pack`` packed with the same tokens. Raises ``StoreIncompatible`` for what is of another format."""
    if packed.startswith(_FORMAT):
        try:
            decompressor = zlib.decompressobj()
            fields = json.loads(decompressor.decompress(packed[len(_FORMAT) :]))
            return _read(fields, decompressor.unused_data, tokens)
        except (ValueError, TypeError, LookupError, AttributeError, struct.error, zlib.error):
            pass
    raise StoreIncompatible("an explanation cannot be read: another version of nbstream wrote it")


def _read(fields: dict[str, Any], ratios: bytes, tokens: Sequence[bytes]) -> Explanation:
    names = [tokens[each] if isinstance(each, int) else each.encode() for each in fields["clues"]]
    log_ratios = struct.unpack(f"<{len(names)}d", ratios)
    counted = zip(names, log_ratios, fields["ham"], fields["spam"], strict=True)
    return Explanation(
        at=fields["at"],
        verdict=fields["verdict"],
        reason=fields["reason"],
        probability=fields["probability"],
        score=fields["score"],
        prior=fields["prior"],
        thresholds=Thresholds(**fields["thresholds"]),
        state=ModelState(fields["learned"], fields["needed"]),
        clues=tuple(CountedClue(*each) for each in counted),
    )
