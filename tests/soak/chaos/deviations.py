"""A broken rule."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Deviation:
    """A rule that is broken; ``at`` is when, in seconds since the begin of the run, where that is known."""

    text: str
    at: float | None = None
