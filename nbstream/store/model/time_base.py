"""The time base of a model (half-life and t0) as it is stored in its signature and written in archives.

Rules: the time base is one field, so that two writers cannot mix theirs; a model without the field was signed by a
version that had no half-lives, and has none.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime

from nbstream.bayes.half_life import NO_HALF_LIFE, HalfLife
from nbstream.errors import StoreIncompatible

HALF_LIFE_FIELD = "half_life"
"""The field's name. Its value is ``"DAYS SECONDS"`` (t0 in seconds since the epoch), or empty for no half-life."""


def pack_half_life(half_life: HalfLife) -> str:
    """The time base as it is stored; floats keep their last bit."""
    return "" if half_life.days is None else f"{float(half_life.days)!r} {float(half_life.since)!r}"


def unpack_half_life(stored: str) -> HalfLife:
    """What ``pack_half_life`` packed. Raises ``StoreIncompatible`` for what this program did not write."""
    if not stored:
        return NO_HALF_LIFE
    try:
        days, since = map(float, stored.split())
    except ValueError as error:
        raise StoreIncompatible("the half-life of the model cannot be read: another program wrote it") from error
    if not (0 < days < math.inf and math.isfinite(since)):
        raise StoreIncompatible("the half-life of the model cannot be read: another program wrote it")
    return HalfLife(days, since)


def is_compatible(stored: HalfLife, wanted: HalfLife, *, exactly: bool) -> bool:
    """Whether a model with the time base ``stored`` may be used; t0 matters only if ``exactly``."""
    return stored == wanted or (stored.days == wanted.days and (stored.days is None or not exactly))


def half_life_mismatch(model: str, stored: HalfLife, wanted: HalfLife) -> StoreIncompatible:
    """The error for a model that was learned with another half-life."""
    days = "null" if stored.days is None else f"{stored.days:g}"
    remedy = (
        "nbstream export the model as it is, set model.half_life_days and a new model.name, and nbstream import it"
    )
    return StoreIncompatible(
        f"model {model!r} was learned with {describe_half_life(stored)}, "
        f"wanted is {describe_half_life(wanted)}; its counts are kept as they "
        f"are. Set model.half_life_days to {days} again; to change it, {remedy}"
    )


def describe_half_life(half_life: HalfLife) -> str:
    """The half-life and its t0 in words."""
    if half_life.days is None:
        return "no half-life"
    return f"a half-life of {half_life.days:g} days since {utc_time(half_life.since)}"


def utc_time(since: float) -> str:
    """A t0 (seconds since the epoch) as a time in UTC, to the second."""
    try:
        return datetime.fromtimestamp(since, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    except (OverflowError, OSError, ValueError):
        return f"{since:.0f} seconds after 1970"
