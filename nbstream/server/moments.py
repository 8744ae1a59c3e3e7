"""Moments as people write them: an age, or a time."""

from __future__ import annotations

import re
from datetime import datetime

_SECONDS = {"m": 60, "h": 3600, "d": 86400}
_LAST_MOMENT = 253_370_764_800.0  # the beginning of 9999 (UTC): it has a date in every time zone


def parse_moment(text: str, now: float) -> float:
    """Return a moment in seconds since the epoch, from ``30m``, ``2h`` or ``3d`` ago, or from an ISO 8601 time.

    A time without an offset is local. What is before 1970 is the beginning of 1970, and what is after 9998 its
    end: each moment has a date. Raises ``ValueError`` for anything else.
    """
    ago = re.fullmatch(r"([0-9]{1,6})([mhd])", text)
    try:
        moment = now - int(ago[1]) * _SECONDS[ago[2]] if ago else datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError, OSError):
        raise ValueError(f"{text[:100]} is none of 30m, 2h, 3d, 2026-01-31T12:00+01:00") from None
    return min(max(0.0, moment), _LAST_MOMENT)
