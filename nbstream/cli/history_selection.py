"""Which changes of the history the options of a command select."""

from __future__ import annotations

import argparse

from nbstream.store.model.history import HistorySelection


def read_selection(options: argparse.Namespace) -> HistorySelection:
    """Return the selection of ``history`` and ``undo``."""
    return HistorySelection(
        options.since or 0.0, options.until, options.actor, options.label, options.id, options.source
    )
