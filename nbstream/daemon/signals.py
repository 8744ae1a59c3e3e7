"""The signals of a daemon: SIGTERM and SIGINT end it, at SIGHUP it reads its configuration again."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable

_log = logging.getLogger(__name__)


def handle_signals(stop: Callable[[], object], reload: Callable[[], object]) -> None:
    """Call ``stop`` and ``reload`` at signals from now on; under nohup a closed terminal is no signal."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    terminals = _terminal_descriptors()

    def handle_hangup() -> None:
        """SIGHUP has two senders: an administrator, and the kernel where the terminal of a daemon is closed."""
        if all(map(os.isatty, terminals)):
            reload()
        else:
            _log.warning("the terminal was closed")
            stop()

    loop.add_signal_handler(signal.SIGHUP, handle_hangup)


def _terminal_descriptors() -> list[int]:
    """Return which standard streams are a terminal whose end ends the daemon; under nohup none is."""
    if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
        return []
    return [number for number in range(3) if os.isatty(number)]
