"""Both engines make the same of a message: key, tokens, clues, score and verdict (nothing without the library)."""

from __future__ import annotations

import asyncio
from functools import cache

from nbstream.engine.choice import LIBRARY_FILE
from tests.fuzz.target import Choices, FuzzTarget, load_target
from tests.harness.engine_pair import EnginePair, Way, native_engine

_RUNNER = asyncio.Runner()
_MAIL = load_target("message_tokens")


@cache
def _pair() -> EnginePair | None:
    if not LIBRARY_FILE.exists():
        return None
    pair = EnginePair(native_engine())
    _RUNNER.run(pair.teach(seed=1))
    return pair


def _check(data: bytes) -> None:
    choices = Choices(data)
    way = Way(settings=choices.number(3), is_bare_text=choices.number(8) == 1)
    pair = _pair()
    if pair:
        assert _RUNNER.run(pair.compare("input", choices.rest, way)) is None


TARGET = FuzzTarget(_check, _MAIL.seeds, words=_MAIL.words, max_bytes=_MAIL.max_bytes, mutations=400)
