"""A worker: one of the processes that serve mail for a parent, on sockets that the parent bound.

Rules: over the socket between them a worker sends its state every ``BEAT_SECONDS``: that is also its sign of
life. The parent sends new settings, as a file in memory. At the end of that socket, however the parent ended,
the worker drains, as at SIGTERM. It is started by exec in a session of its own, so that the signals of a
terminal go to the parent alone. Settings have secrets: they are in no command line, in no environment and on no
disk.
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import pickle
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvloop

from nbstream import __version__, logs
from nbstream.daemon.assembly.store import open_redis
from nbstream.daemon.metrics import DaemonMetrics
from nbstream.daemon.server import Server, shorten_switch_interval
from nbstream.daemon.server_parts import ServerParts
from nbstream.daemon.sockets import close_sockets
from nbstream.daemon.status import NOT_LOADED, READY, STARTING
from nbstream.engine.choice import choose_engine
from nbstream.errors import CannotStart, NbstreamError
from nbstream.metrics import join_folder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nbstream.daemon.config import Settings

_log = logging.getLogger(__name__)

# The exit codes of a worker that cannot serve. They stay as they are: after an upgrade the parent of the older
# release starts workers of this one, until it is restarted itself.
FAILED_FOR_NOW = 75
FAILED_FOR_GOOD = 78

# What a worker says besides its state.
APPLIED = "applied"
FAILED = "failed "  # and why

BEAT_SECONDS = 5.0
_MAX_FAILURE_LETTERS = 4000


def settings_file(settings: Settings) -> int:
    """Return the descriptor of a file in memory with the settings, for workers."""
    descriptor = os.memfd_create("nbstream-settings")
    with open(descriptor, "wb", closefd=False) as file:
        file.write(pickle.dumps(settings))
    return descriptor


def _read_settings(descriptor: int) -> Settings:
    """Return the settings of the file; several processes read it at once."""
    try:
        settings: Settings = pickle.loads(os.pread(descriptor, os.fstat(descriptor).st_size, 0))  # noqa: S301 - ours
        return settings
    finally:
        os.close(descriptor)


def main() -> int:
    """Serve until the parent ends it; the only argument is what it is started with, as JSON."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    shorten_switch_interval()
    start = json.loads(sys.argv[1])
    parent = _Parent(_inherited_socket(start["parent"]))
    try:
        uvloop.run(_serve(start, parent))
    except NbstreamError as error:
        parent.tell(f"{FAILED}{str(error)[:_MAX_FAILURE_LETTERS]}")
        return FAILED_FOR_NOW if error.temporary else FAILED_FOR_GOOD
    return 0


class _Parent:
    """The worker's end of the socket between it and its parent."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection

    def tell(self, text: str) -> None:
        """Send a message; a parent that does not read it, or has ended, is no error.

        An error may name a file whose name is no UTF-8.
        """
        with suppress(OSError):
            self.connection.send(text.encode("utf-8", "backslashreplace"))

    def follow(self, server: Server) -> None:
        """Apply the settings that came; drain where they cannot be applied, or the parent has ended."""
        try:
            message, descriptors, _, _ = socket.recv_fds(self.connection, 1, 1)
        except BlockingIOError:
            return
        except OSError:
            message = b""
        if not message:
            asyncio.get_running_loop().remove_reader(self.connection)
            server.stop()
            return
        try:
            server.apply_settings(_read_settings(descriptors[0]))
        except Exception:  # noqa: BLE001 - another worker begins with these settings, and this one finishes what it has
            _log.exception("this worker cannot apply the new settings and shuts down")
            server.stop()
        self.tell(APPLIED)


async def _serve(start: Mapping[str, Any], parent: _Parent) -> None:
    if start["version"] != __version__:
        # What the parent sends may have another meaning in this version.
        raise CannotStart(f"nbstream {start['version']} runs, but {__version__} is installed: restart the daemon")
    settings, number = _read_settings(start["settings"]), int(start["number"])
    logs.set_up_logging(settings.log, {"worker": number})
    folder = Path(start["metrics"])
    join_folder(folder, str(number))
    engine = choose_engine()
    metrics = DaemonMetrics.create(engine, folder)
    sockets = {
        name: [_inherited_socket(descriptor) for descriptor in descriptors]
        for name, descriptors in start["sockets"].items()
    }
    loop = asyncio.get_running_loop()
    async with open_redis(settings, metrics.store.primary_lost) as clients:
        parts = ServerParts(settings, clients, metrics, engine)
        server, is_ready = Server(parts, worker=number), False

        def state() -> str:
            return STARTING if not is_ready else READY if server.is_loaded else NOT_LOADED

        def ready() -> None:
            nonlocal is_ready
            is_ready = True
            gc.freeze()  # this stays: a look for garbage in it, here too, would hold the interpreter for 50 ms
            parent.tell(state())

        async def beat() -> None:
            parent.tell(state())
            metrics.registry.refresh()  # any worker exports the gauges of all

        loop.add_signal_handler(signal.SIGTERM, server.stop)
        loop.add_reader(parent.connection, parent.follow, server)
        parts.background.every("beat", BEAT_SECONDS, beat)
        try:
            await server.run(lambda: sockets, ready)
        finally:
            loop.remove_reader(parent.connection)
            close_sockets(sockets)


def _inherited_socket(descriptor: int) -> socket.socket:
    inherited = socket.socket(fileno=descriptor)
    inherited.set_inheritable(False)
    inherited.setblocking(False)
    return inherited
