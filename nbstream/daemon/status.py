"""What a daemon says of itself: to its log, its service manager, and commands that ask on the control socket."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from nbstream.addresses import TcpAddress
from nbstream.file_locks import daemon_pid
from nbstream.server import control_socket

if TYPE_CHECKING:
    from pathlib import Path


_log = logging.getLogger(__name__)

_ASK_SECONDS = 2.0

STARTING = "starting"
READY = "ready"
NOT_LOADED = "not loaded"  # it accepts mail, but has no counts to score it with


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """A worker of the daemon: its process, its ``state`` (one of those above), and since when, as Unix time."""

    pid: int
    state: str
    since: float


@dataclass(frozen=True, slots=True)
class DaemonStatus:
    """The daemon on the state folder: ``pid`` is None where none runs.

    Where it does not answer, ``workers`` is empty and all that follows is None. ``file`` is the configuration that
    it goes by, None also for the defaults; ``version`` is that of its program.
    ``http_address`` is where its HTTP listener listens, None where it has no TCP port.
    """

    pid: int | None
    workers: tuple[WorkerStatus, ...] = ()
    policy_hash: str | None = None
    engine: str | None = None
    file: str | None = None
    version: str | None = None
    http_address: TcpAddress | None = None

    @property
    def answers(self) -> bool:
        """Whether the daemon runs and answered."""
        return self.policy_hash is not None


def ask_daemon_status(state_dir: Path) -> DaemonStatus:
    """Return what the daemon says; one that does not answer is no error.

    It blocks for about ``_ASK_SECONDS`` at most. Raises ``ConfigError`` or ``StoreUnavailable`` for a state folder
    that cannot be used.
    """
    pid = daemon_pid(state_dir)
    if pid is None:
        return DaemonStatus(None)
    try:
        answer = control_socket.ask_daemon(state_dir, "policy", _ASK_SECONDS)
    except (OSError, ValueError):
        return DaemonStatus(pid)
    workers = tuple(WorkerStatus(**worker) for worker in answer.get("workers") or ())
    others = (answer.get(name) for name in ("policy", "engine", "file", "version"))
    http = answer.get("http")
    return replace(DaemonStatus(pid, workers, *others), http_address=TcpAddress(*http) if http else None)
