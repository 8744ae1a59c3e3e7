"""When a digest is due, in the time zone of the machine. No clock is read here."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from nbstream.users.settings import Weekday

if TYPE_CHECKING:
    from nbstream.users.settings import DigestSettings


def last_due(section: DigestSettings, now: float) -> float:
    """Return the last time until ``now`` at which a digest was due, all in seconds since 1970.

    A time that a change of the clocks skips is an hour later on that day.
    """
    today = time.localtime(now)
    hour, minute = map(int, section.at.split(":"))
    days_back = 0
    if section.schedule == "weekly":
        days_back = (today.tm_wday - list(Weekday).index(section.weekday)) % 7
    due = _local_time(today, days_back, hour, minute)
    if due > now:
        due = _local_time(today, days_back + (7 if section.schedule == "weekly" else 1), hour, minute)
    return due


def _local_time(today: time.struct_time, days_back: int, hour: int, minute: int) -> float:
    return time.mktime((today.tm_year, today.tm_mon, today.tm_mday - days_back, hour, minute, 0, 0, 0, -1))
