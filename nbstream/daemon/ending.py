"""The end of a process that has drained: threads that never come back, since a disk hangs, do not hold it up.

asyncio and Python wait for all of their threads at the end, without a limit of time.
"""

from __future__ import annotations

import logging
import os
import threading

_log = logging.getLogger(__name__)

_LATE_SECONDS = 10.0


def end_soon() -> None:
    """Let this process, whose work is done, end within ``_LATE_SECONDS`` whatever its threads do."""
    timer = threading.Timer(_LATE_SECONDS, _end)
    timer.daemon = True
    timer.start()


def _end() -> None:
    _log.warning("ended without its threads, which do not come back: does a disk hang?")
    os._exit(0)
