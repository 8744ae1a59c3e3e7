"""The embedded Redis: a private redis-server or valkey-server in ``state_dir/redis``, on a unix socket only.

Rules. Whoever finds no server starts one, as a child process; others use it by its socket. It ends with the
process that started it: that one stops it at its end, and where it is killed the kernel does. Others that still
need a server then start the next one. Nothing is lost in between, since every write is on disk before its answer
(``appendfsync always``).

``redis.server`` is a file whose kernel lock the server inherits. So a second server on the same files or the same
socket waits until the first one has ended, however that ends. The process id in it is for people only. A lock file
is never deleted: otherwise two processes could each hold the lock, on two files of the same name.

``redis/server.json`` records the newest server that wrote the state. An older one is refused: Redis 6.2 opens the
state of Redis 7 as empty, without an error.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from nbstream.errors import ConfigError, StoreUnavailable
from nbstream.file_locks import FileLock, translate_os_errors
from nbstream.store.server_programs import (
    choose_server,
    find_servers,
    read_version_record,
    write_version_record,
)
from nbstream.system_users import as_user, user_name

if TYPE_CHECKING:
    from collections.abc import Sequence

_log = logging.getLogger(__name__)

START_SECONDS = 30.0  # until the server answers, and between two answers that it is loading
LOADING_SECONDS = 600.0  # for loading in all
STOP_SECONDS = 10.0  # from SIGTERM to SIGKILL; every acknowledged write is on disk before its answer
ANSWER_SECONDS = 2.0
POLL_SECONDS = 0.02
LOG_BYTES = 1 << 20

_LOG_FILE = "redis.log"
_SOCKET_NAME = "redis.sock"
_SOCKET_PATH_BYTES = 107  # sun_path of unix(7), without its final NUL
# Becomes the server, which the kernel stops when the process that started it ends: PR_SET_PDEATHSIG of prctl(2).
# The end of a starter that has ended before would not be noticed. A program may block or ignore signals, and whom
# it starts would do so too: this one has to end at SIGTERM, and to hear of the end of its own children.
_START_PROGRAM = """
import ctypes, os, signal, sys
signal.signal(signal.SIGCHLD, signal.SIG_DFL)
signal.pthread_sigmask(signal.SIG_SETMASK, ())
ctypes.CDLL(None).prctl(1, int(signal.SIGTERM), 0, 0, 0)
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.argv[2], sys.argv[2:])
"""
_LOADING = b"-LOADING"
_SERVER_OPTIONS = (
    *(
        "--port",
        "0",
        "--unixsocket",
        _SOCKET_NAME,
        "--unixsocketperm",
        "700",
        "--dir",
        ".",
        "--logfile",
        _LOG_FILE,
    ),
    *("--appendonly", "yes", "--appendfsync", "always", "--no-appendfsync-on-rewrite", "no", "--save", ""),
    *("--maxmemory", "0", "--maxmemory-policy", "noeviction", "--daemonize", "no", "--supervised", "no"),
    *("--hash-max-ziplist-value", "4096"),  # most ledger entries are one piece of memory then, and a sixth smaller
)


def _ping(address: str) -> bytes:
    """The server's reply to a PING, empty for no reply. One that is an error the store will report."""
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(ANSWER_SECONDS)
            connection.connect(address)
            connection.sendall(b"PING\r\n")
            return connection.recv(1024)
    except OSError:
        return b""


class EmbeddedRedis:
    """The use of the server in ``state_dir`` by this process, from ``open`` to ``close`` or the process's end.

    ``servers`` are the programs to choose from, by default ``find_servers()``.
    """

    def __init__(self, state_dir: Path, servers: Sequence[Path] | None = None) -> None:
        self._state_dir = state_dir.absolute()
        self._folder = self._state_dir / "redis"
        self._server_programs = servers
        self._folder_descriptor: int | None = None
        self._server: subprocess.Popen[bytes] | None = None
        self._log_start = 0

    def open(self) -> str:
        """Return the path of the socket, on which perhaps no server listens yet.

        The path may name an open folder of this process; no other process can use it then. Raises ConfigError or
        StoreUnavailable if the state folder cannot be used.
        """
        with translate_os_errors(self._state_dir):
            for folder in (self._state_dir, self._folder):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            owner = self._folder.stat().st_uid
            if owner != os.geteuid():  # root would create files that the daemon cannot open
                raise ConfigError(f"{self._folder} belongs to {user_name(owner)}: {as_user(owner)}")
            if len(os.fsencode(self._folder / _SOCKET_NAME)) > _SOCKET_PATH_BYTES:
                if not Path("/proc/self/fd").is_dir():
                    raise ConfigError(
                        f"state_dir {self._state_dir} is too long for a unix socket: use a shorter one"
                    )
                self._folder_descriptor = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        return self._socket_address

    async def ensure_running(self) -> None:
        """Return when the server answers and has loaded its data; start it if nobody else has.

        Raises ConfigError if there is no server program, StoreIncompatible if all installed servers would lose the
        state, StoreUnavailable if the server does not answer in time.
        """
        begin = time.monotonic()
        deadline = begin + START_SECONDS
        is_starting = False
        while not (reply := await asyncio.to_thread(_ping, self._socket_address)) or reply.startswith(_LOADING):
            if reply:
                deadline = min(time.monotonic() + START_SECONDS, begin + LOADING_SECONDS)
            elif not is_starting:
                is_starting = await asyncio.to_thread(self.start)
            elif self._server is None or self._server.poll() is not None:
                self._server = None
                raise self._start_failure("did not start")
            if time.monotonic() > deadline:
                raise self._start_failure("does not answer")
            await asyncio.sleep(POLL_SECONDS)

    def start(self) -> bool:
        """Start the server; return False where another one runs, or has not ended yet.

        It ends with the thread that calls this.
        """
        with translate_os_errors(self._state_dir), FileLock(self._state_dir / "redis.server") as lock:
            if not lock.try_lock(fcntl.LOCK_EX):
                return False
            servers = find_servers() if self._server_programs is None else self._server_programs
            server, version = choose_server(servers, read_version_record(self._folder))
            if self._server is not None:
                _log.error("%s", self._start_failure("ended by itself and is started again"))
                self._server.wait()
            # First, because the server converts the files when it opens them.
            write_version_record(self._folder, version)
            log = self._folder / _LOG_FILE
            self._log_start = _file_size(log)
            if self._log_start > LOG_BYTES:
                log.replace(log.with_suffix(".log.old"))
                self._log_start = 0
            self._server = self._start_process(server, lock)
            lock.write_pid(self._server.pid)
            return True

    def _start_process(self, server: Path, lock: FileLock) -> subprocess.Popen[bytes]:
        environment = {"PATH": os.defpath, "LC_ALL": "C"}
        environment |= {name: os.environ[name] for name in ("LD_LIBRARY_PATH", "TZ") if name in os.environ}
        program = (sys.executable, "-I", "-S", "-c", _START_PROGRAM, str(os.getpid()))
        log = os.open(self._folder / _LOG_FILE, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            return subprocess.Popen(  # noqa: S603 - no shell: the arguments are fixed
                [*program, str(server), *_SERVER_OPTIONS],
                stdin=lock.descriptor,
                stdout=log,
                stderr=log,
                cwd=self._folder,
                env=environment,
                umask=0o077,
                start_new_session=True,
            )
        finally:
            os.close(log)

    def close(self) -> None:
        """End the use; close all connections before. A server that this process has started ends."""
        if self._server is not None:
            self._server.terminate()
            try:
                self._server.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._server.kill()
                self._server.wait()
        if self._folder_descriptor is not None:
            os.close(self._folder_descriptor)
        self._server = self._folder_descriptor = None

    @property
    def _socket_address(self) -> str:
        if self._folder_descriptor is None:
            return str(self._folder / _SOCKET_NAME)
        return f"/proc/self/fd/{self._folder_descriptor}/{_SOCKET_NAME}"

    def _start_failure(self, problem: str) -> StoreUnavailable:
        with contextlib.suppress(OSError), (self._folder / _LOG_FILE).open("rb") as log:
            log.seek(max(self._log_start, _file_size(self._folder / _LOG_FILE) - 2000))
            lines = log.read(2000).decode("utf-8", "replace").splitlines()[-8:]
            problem += "; its log ends:\n" + "\n".join(lines) if lines else ""
        return StoreUnavailable(f"the embedded Redis in {self._folder} {problem}")


def _file_size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
