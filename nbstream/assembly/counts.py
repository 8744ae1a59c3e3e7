"""What holds the counts with the engine of the process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbstream.bayes.counts import ClassCounts, Counts
from nbstream.bayes.table_counts import TableCounts
from nbstream.engine.table import TableFunctions

if TYPE_CHECKING:
    from nbstream.engine.choice import Engine


def table_functions(engine: Engine) -> TableFunctions | None:
    """Return what works on tables of counts; None where the counts are those of Python."""
    return TableFunctions(engine.native_library) if engine.native_library else None


def make_counts(engine: Engine) -> Counts:
    """Return empty counts in the memory of this process."""
    functions = table_functions(engine)
    return TableCounts.empty(functions) if functions else ClassCounts()
