"""The signals of a daemon and the end of its process, and how long its event loop waits for its turn.

Rules: SIGTERM and SIGINT end it, at SIGHUP it reads its configuration again. Threads that never come back, since a
disk hangs, do not hold up the end of a process that has drained: asyncio and Python wait for all of their threads
without a limit of time.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable

_log = logging.getLogger(__name__)


def handle_signals(
    stop: Callable[[], object],
    reload: Callable[[], object],
) -> None:
    """Call ``stop`` and ``reload`` at signals from now on; under nohup a closed terminal is no signal."""
    add_handler = asyncio.get_running_loop().add_signal_handler
    for number in (signal.SIGTERM, signal.SIGINT):
        add_handler(number, stop)
    terminals = _terminal_descriptors()

    def handle_hangup() -> None:
        """SIGHUP has two senders: an administrator, and the kernel where the terminal of a daemon is closed."""
        if all(map(os.isatty, terminals)):
            reload()
        else:
            _log.warning("the terminal was closed")
            stop()

    add_handler(signal.SIGHUP, handle_hangup)


def _terminal_descriptors() -> list[int]:
    """Return which standard streams are a terminal whose end ends the daemon; under nohup none is."""
    if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
        return []
    return [number for number in range(3) if os.isatty(number)]


_LATE_SECONDS = 10.0


def end_soon() -> None:
    """Let this process, whose work is done, end within ``_LATE_SECONDS`` whatever its threads do."""
    timer = threading.Timer(_LATE_SECONDS, _end)
    timer.daemon = True
    timer.start()


def _end() -> None:
    _log.warning("exited although threads were still busy: does a disk hang?")
    os._exit(0)


# Large messages are parsed in threads. Meanwhile the event loop waits up to this long each time that it has work
# to do, about three times for each answer. Python's default is 5 ms: a message of 20 MB would delay others more.
_SWITCH_SECONDS = 0.001


def shorten_switch_interval() -> None:
    """Let the threads of this process, which serves mail, give up the interpreter sooner."""
    sys.setswitchinterval(_SWITCH_SECONDS)
