"""What the daemon tells its service manager: the datagrams of sd_notify(3), and the watchdog of sd_watchdog(3).

Rules: only the main process tells something, and its children get none of the variables. A datagram is sent
without waiting: a service manager that does not read must not hold up mail. The state is sent again and again. A
reload is not told: systemd has asked for it, and waits for the command that does. The watchdog gets its signs of
life from the event loop of the main process: one that stands sends none, and the service manager ends the daemon.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, MutableMapping
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from nbstream.server.background import BackgroundTasks


_log = logging.getLogger(__name__)

_READY = "READY=1"
_STOPPING = "STOPPING=1"
_LONGEST_ROUND_SECONDS = 30.0
_PINGS_PER_LIMIT = 3  # sd_watchdog(3) recommends two


class ServiceManager:
    """The service manager that started this process; without an address there is none, and nothing is sent.

    ``address`` is the path of a datagram socket, or "@" and the name of an abstract one. ``watchdog_seconds`` is
    the time after which the service manager ends a process that is silent; None where it does not.
    """

    def __init__(self, address: str | None = None, watchdog_seconds: float | None = None) -> None:
        self._address = "\0" + address[1:] if address and address.startswith("@") else address
        self._watchdog_seconds = watchdog_seconds
        self._state = ""
        self._status = ""
        self._has_failed = False

    @classmethod
    def from_environment(cls, environment: MutableMapping[str, str] = os.environ) -> Self:
        """Take the variables of systemd out of ``environment``, so that no child speaks for this process."""
        address = environment.pop("NOTIFY_SOCKET", None)
        microseconds = environment.pop("WATCHDOG_USEC", "")
        process = environment.pop("WATCHDOG_PID", "")
        is_watched = microseconds.isdecimal() and process in {"", str(os.getpid())}
        return cls(address, int(microseconds) / 1_000_000 if is_watched else None)

    def ready(self, status: str) -> None:
        """Tell that the daemon serves; ``status`` is a sentence for people."""
        self._tell(_READY, status)

    def stopping(self) -> None:
        """Tell that the daemon drains, and ends then."""
        self._tell(_STOPPING, "draining")

    def watch(self, background: BackgroundTasks, status: Callable[[], str], lives: Callable[[], bool]) -> None:
        """From now on, tell the state again and again, with signs of life as long as the daemon ``lives``."""

        async def tell() -> None:
            self.tell_again(status(), lives=lives())

        if self._address:
            limit = self._watchdog_seconds
            seconds = min(_LONGEST_ROUND_SECONDS, limit / _PINGS_PER_LIMIT) if limit else _LONGEST_ROUND_SECONDS
            background.every("service manager", seconds, tell)

    def tell_again(self, status: str, *, lives: bool) -> None:
        """Tell the state again, for one that has not taken it, with this ``status`` where the daemon serves."""
        if self._state == _READY:
            self._status = status
        if self._watchdog_seconds and not lives:
            return
        life = "WATCHDOG=1\n" if self._watchdog_seconds else ""
        state = f"{self._state}\nSTATUS={self._status}" if self._state else ""
        if told := f"{life}{state}".rstrip():
            self._send(told)

    def _tell(self, state: str, status: str) -> None:
        self._state, self._status = state, status
        self._send(f"{state}\nSTATUS={status}")

    def _send(self, text: str) -> None:
        """Send a datagram, unless it would have to wait."""
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sending:
                sending.setblocking(False)
                sending.sendto(text.encode(), self._address)
        except BlockingIOError:
            return
        except OSError as error:
            if not self._has_failed:
                _log.warning("NOTIFY_SOCKET cannot be used: %s", error.strerror)
            self._has_failed = True
