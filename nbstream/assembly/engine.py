"""The engine that takes messages apart and scores them, from settings; commands that load no Redis need it too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbstream.engine.choice import Engine, choose_engine
from nbstream.tokens import TOKENIZER_VERSION

if TYPE_CHECKING:
    from nbstream.config import Settings


def make_engine(settings: Settings) -> Engine:
    """Return the engine of this process. Raises ``ConfigError`` where it was asked for and does not fit."""
    return choose_engine(settings.engine, TOKENIZER_VERSION)
