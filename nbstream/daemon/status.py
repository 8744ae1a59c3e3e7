"""What a daemon says of itself to commands on the control socket, and the links to its page that they make."""

from __future__ import annotations

import ipaddress
import logging
import shlex
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from nbstream.addresses import ListenAddress, TcpAddress
from nbstream.daemon.assembly.store import open_running_redis
from nbstream.file_locks import daemon_pid
from nbstream.server import control_socket
from nbstream.store.logins import PageSessionStore
from nbstream.store.model.keys import ModelKeys

if TYPE_CHECKING:
    from pathlib import Path

    from nbstream.daemon.config import Settings


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


# One-time links to its page.

_FORWARDED_PORT = 11334


async def create_page_link(settings: Settings, role: str, name: str) -> str:
    """Return the path and query of a new link, for a role of the page; ``name`` is who has it.

    Raises ``ConfigError`` or ``StoreUnavailable`` where Redis cannot be used.
    """
    async with open_running_redis(settings) as clients:
        store = PageSessionStore(clients.client, ModelKeys(settings.model.name))
        return f"/ui/login?link={await store.create_link(role, name)}"


def link_url(address: ListenAddress, path: str) -> str:
    """Return the URL for a browser on this machine; that of a unix socket is reached as ``link_note`` says."""
    if isinstance(address, TcpAddress):
        return f"http://{_reachable(address)}{path}"
    return f"http://localhost:{_FORWARDED_PORT}{path}"


def link_note(address: ListenAddress) -> str:
    """Return what to do before the link can be used."""
    once = "The link can be used once, within ten minutes."
    if isinstance(address, TcpAddress):
        target = _reachable(address)
        return f"{once} From another machine, forward the port first:\n  ssh -N -L {address.port}:{target} HOST"
    return (
        f"{once} A browser cannot reach a unix socket. Forward a port to it first, from\n"
        f"your own machine or with HOST localhost:\n"
        f"  ssh -N -L {_FORWARDED_PORT}:{shlex.quote(str(address.path))} HOST"
    )


def _reachable(address: TcpAddress) -> TcpAddress:
    """Return the address for a client on this machine: one that means all addresses cannot be connected to."""
    try:
        listening = ipaddress.ip_address(address.host or "0.0.0.0")  # noqa: S104 - nothing is bound here
    except ValueError:
        return address
    if not listening.is_unspecified:
        return address
    return replace(address, host="127.0.0.1" if listening.version == 4 else "::1")
