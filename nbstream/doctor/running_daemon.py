"""The daemon: whether it runs and answers, and whether it is the program that is installed."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from nbstream import __version__
from nbstream.daemon.listeners import LISTENERS
from nbstream.engine.choice import ENVIRONMENT, choose_engine
from nbstream.findings import note, ok, problem, warning

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from nbstream.doctor.site import Site
    from nbstream.findings import Finding

NOT_RUNNING = problem(
    "daemon.running",
    "No daemon runs on the state folder {folder}.",
    "Start it, for example by systemctl start nbstream; its log says why it ended.",
)
STATE_UNUSABLE = problem(
    "daemon.running",
    "Whether a daemon runs cannot be seen: {error}.",
    "Run this as the user of the daemon, or mend the state folder.",
)
NO_ANSWER = problem(
    "daemon.running",
    "The daemon (process {pid}) does not answer on its control socket.",
    "Run this as the user of the daemon, or see in the log of the daemon what it does; restart it if it hangs.",
)
RUNNING = ok("daemon.running", "The daemon runs (process {pid}) with {workers}.")
WORKER_SILENT = problem(
    "daemon.workers",
    "Worker {pid} does not answer.",
    "See in the log of the daemon what it does; the supervisor replaces it when it has ended.",
)
OTHER_VERSION = warning(
    "daemon.version",
    "The daemon runs version {running}, and {installed} is installed.",
    "Restart the daemon.",
)
VERSION = ok("daemon.version", "The daemon and this command are version {version}.")
OTHER_ENGINE = warning(
    "daemon.engine",
    "The daemon runs on the engine {running}, and this command chooses {chosen}.",
    f"Restart the daemon, or see whether its {ENVIRONMENT} differs.",
)
SLOW_ENGINE = note(
    "daemon.engine",
    "The engine is {engine}, which is the slower one.",
    "Build the native library (make run, or pip install with cargo on the path), unless the speed is enough.",
)
ENGINE = ok("daemon.engine", "The engine is {engine}.")
FEW_FILES = warning(
    "daemon.files",
    "The daemon may open {limit} files, and its listeners may have {needed} connections in a process.",
    "Raise the hard limit of open files (LimitNOFILE of the service), or lower max_connections.",
)
FILES = ok("daemon.files", "The daemon may open {limit} files, and {needed} may be needed.")

_OPEN_FILES = re.compile(r"^Max open files\s+(\d+|unlimited)", re.MULTILINE)
_OTHER_FILES = 150  # Redis, the next hop's idle connections, logs, and what Python itself has open


async def examine_daemon(site: Site) -> Sequence[Finding]:
    """Say whether the daemon runs, with which program, and within which limits."""
    return list(_findings(site))


def _findings(site: Site) -> Iterator[Finding]:
    daemon = site.daemon
    if site.daemon_unknown:
        yield STATE_UNUSABLE(error=site.daemon_unknown)
    elif daemon.pid is None:
        yield NOT_RUNNING(folder=site.settings.state_dir)
    elif not daemon.answers:
        yield NO_ANSWER(pid=daemon.pid)
    else:
        count = len(daemon.workers)
        yield RUNNING(pid=daemon.pid, workers=f"{count} workers" if count > 1 else "one process for all")
        for worker in daemon.workers:
            if worker.role is None:
                yield WORKER_SILENT(pid=worker.pid)
        running = daemon.version or "0.5.0 or older"
        same = running == __version__
        yield VERSION(version=running) if same else OTHER_VERSION(running=running, installed=__version__)
        yield from _open_files(site, daemon.pid)
    engine = choose_engine(site.settings.engine)
    if daemon.engine not in {None, engine.name}:
        yield OTHER_ENGINE(running=daemon.engine, chosen=engine)
    yield ENGINE(engine=engine) if engine.native_library else SLOW_ENGINE(engine=engine)


def _open_files(site: Site, pid: int) -> Iterator[Finding]:
    with suppress(OSError):  # of another user, or it has just ended
        limits = Path(f"/proc/{pid}/limits").read_text(encoding="ascii")
        if finding := open_files_finding(limits, _connections(site) + _OTHER_FILES):
            yield finding


def open_files_finding(limits: str, needed: int) -> Finding | None:
    """Return what is to be said of the limits of a process, as in ``/proc/PID/limits`` (proc(5))."""
    limit = _OPEN_FILES.search(limits)
    if limit is None or limit[1] == "unlimited":
        return None
    kind = FEW_FILES if int(limit[1]) < needed else FILES
    return kind(limit=limit[1], needed=needed)


def _connections(site: Site) -> int:
    """Return how many connections a process may have, those to the next hop included."""
    settings = site.settings
    listeners = (entry for entry in LISTENERS if entry.listen_address(settings))
    return sum(entry.limits(settings).max_connections for entry in listeners) + settings.limits.max_connections
