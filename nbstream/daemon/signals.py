"""The signals of a daemon: SIGTERM and SIGINT end it, SIGHUP has it read its file anew."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable

_log = logging.getLogger(__name__)


def handle_signals(stop: Callable[[], object], reload: Callable[[], object]) -> None:
    """Call these at signals from now on; whoever was started under nohup does not notice a closed terminal."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    terminals = _terminal_descriptors()

    def hung_up() -> None:
        """SIGHUP has two senders: an administrator, and the kernel where the terminal of a daemon is closed."""
        if all(map(os.isatty, terminals)):
            reload()
        else:
            _log.warning("the terminal was closed")
            stop()

    loop.add_signal_handler(signal.SIGHUP, hung_up)


def _terminal_descriptors() -> list[int]:
    """Which of the standard streams are a terminal that the daemon ends with; under nohup none is."""
    if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
        return []
    return [number for number in range(3) if os.isatty(number)]
