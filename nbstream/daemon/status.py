"""What the daemon on a state folder says of itself, for commands."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from nbstream.addresses import TcpAddress
from nbstream.server import control_socket
from nbstream.store.embedded.locks import daemon_pid

if TYPE_CHECKING:
    from pathlib import Path

_ASK_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """A worker of the daemon: its process, and what it does with the counts.

    ``role`` is None where the worker does not answer.
    """

    pid: int
    role: str | None


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
    pids = answer.get("workers") or ()
    workers = tuple(WorkerStatus(pid, role) for pid, role in zip(pids, answer.get("roles") or (), strict=True))
    others = (answer.get(name) for name in ("policy", "engine", "file", "version"))
    http = answer.get("http")
    return replace(DaemonStatus(pid, workers, *others), http_address=TcpAddress(*http) if http else None)
