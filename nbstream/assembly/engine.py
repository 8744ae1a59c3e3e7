"""The engine that takes messages apart and scores them, from settings, and what holds the counts with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbstream.bayes.counts import ClassCounts, Counts
from nbstream.bayes.table_counts import TableCounts
from nbstream.engine.choice import Engine, choose_engine
from nbstream.engine.table import TableFunctions
from nbstream.tokens import TOKENIZER_VERSION

if TYPE_CHECKING:
    from nbstream.config import Settings


def make_engine(settings: Settings) -> Engine:
    """Return the engine of this process. Raises ``ConfigError`` where it was asked for and does not fit."""
    return choose_engine(settings.engine, TOKENIZER_VERSION)


def table_functions(engine: Engine) -> TableFunctions | None:
    """Return what works on tables of counts; None where the counts are those of Python."""
    return TableFunctions(engine.library) if engine.library else None


def make_counts(engine: Engine) -> Counts:
    """Return empty counts in the memory of this process."""
    functions = table_functions(engine)
    return TableCounts.empty(functions) if functions else ClassCounts()
