"""A remembered message with its explanation: any stored bytes are refused with the documented error, or read.

The first byte says whether the rest is what is stored, or the message before it is deflated or compressed, 0xff,
and its explanation.
"""

from __future__ import annotations

import math
import struct
import zlib
from dataclasses import replace
from typing import Any

from nbstream.errors import StoreIncompatible
from nbstream.filter.filter import MessageRecord
from nbstream.policy.explanation import CountedClue, Explanation
from nbstream.policy.verdict import ModelState, Thresholds
from nbstream.store.recent import stored_form
from nbstream.store.recent.checked_messages import CheckedMessage
from nbstream.store.recent.stored_form import pack_explanation, unpack_explanation
from nbstream.tokens.tokens import Tokens
from tests.fuzz.shown_records import show_message
from tests.fuzz.target import Choices, FuzzTarget
from tests.harness.counted_clues import counted_clues

_KEY = "a" * 24
_TOKENS = Tokens((b"from:ann", b"subject:x"), (b"body:a", b"url:b"), (b"raw:c",))


def _check(data: bytes) -> None:
    choices = Choices(data)
    stored = choices.rest
    if pack := (stored_form.compress, None, zlib.compress)[choices.number(3)]:
        sections, _, rest = choices.rest.partition(b"\xff")
        stored = pack(sections) + rest
    try:
        message, packed_explanation = CheckedMessage.unpack_first(_KEY, stored)
    except StoreIncompatible:
        return
    _check_explanation(packed_explanation, message)
    again = CheckedMessage.unpack(_KEY, message.pack())
    assert again.tokens.all == message.tokens.all
    assert (again.verdict, again.policy) == (message.verdict, message.policy)


def _check_explanation(packed: bytes, message: CheckedMessage) -> None:
    try:
        explanation = unpack_explanation(packed, message.tokens) if packed else None
    except StoreIncompatible:
        return
    if explanation is not None:
        assert len(explanation.clues) <= len(packed)
        show_message(MessageRecord(_KEY, explanation, explanation, message, None))


_MESSAGE = CheckedMessage(_KEY, _TOKENS, 0.75, "unsure")
_EXPLANATION = Explanation(
    at=1_800_000_000.5,
    verdict="unsure",
    reason="between the thresholds",
    probability=0.75,
    score=1.0,
    prior=0.1,
    thresholds=Thresholds(),
    state=ModelState({"ham": 3, "spam": 4}, {"ham": 1, "spam": 1}),
    clues=counted_clues(
        _TOKENS, [CountedClue(b"body:a", 1.5, 1000, 4000), CountedClue(b"autolearn:limit", -0.6, None, None)]
    ),
)
_PACKED_EXPLANATION = pack_explanation(_EXPLANATION)
_STRANGE: tuple[dict[str, Any], ...] = (
    {"at": math.inf},
    {"probability": math.nan},
    {"score": math.nan, "prior": -math.inf},
    {"verdict": None},
    {"verdict": "", "reason": ("x",)},
    {"state": ModelState({}, {"ham": None})},  # type: ignore[dict-item]
)
_STRANGE_EXPLANATIONS = [pack_explanation(replace(_EXPLANATION, **changes)) for changes in _STRANGE]
_NESTED_EXPLANATION = struct.pack("<4dIIB", 0, 0, 0, 0, 1900, 0, 4) + b"[" * 1900

TARGET = FuzzTarget(
    _check,
    (
        b"\1" + _MESSAGE.pack() + _PACKED_EXPLANATION,
        b"\0" + b"0.75 unsure\0from:ann\nsubject:x\nbody:a\nurl:b\nraw:c\0default\0\xff" + _PACKED_EXPLANATION,
        b"\1" + _MESSAGE.pack() + _NESTED_EXPLANATION,
        *(b"\1" + _MESSAGE.pack() + packed for packed in _STRANGE_EXPLANATIONS),
        b"\0" + b"nan \0\0policy\0list\xff",
        b"\0" + b"1 spam\0a\0b\0c d\0e\xff1",
        b"\1" + _MESSAGE.pack()[:-3],
        b"\1" + _MESSAGE.pack() + _PACKED_EXPLANATION,
        b"\1" + _MESSAGE.pack()[:-3],
        b"\2" + _MESSAGE.content() + b"\xff" + _PACKED_EXPLANATION,
    ),
    words=(b"\0", b"\n", b" ", b"nan", b"\xff2", b"[[", b'["', b"null", b"\xff\xff\xff\x7f", b"{}"),
    max_bytes=3000,
    mutations=400,
)
