"""The embedded Redis: a private redis-server or valkey-server in ``state_dir/redis``, on a unix socket only.

Rules. Kernel locks decide, never pid files, because the kernel releases a lock when its last holder ends, for
whatever reason. Lock files are never deleted: otherwise two processes could each hold the lock, on two files of
the same name. The locks are:

- ``redis.users``: every process that uses the server has it shared. The server runs under the guardian
  (``guardian.py``), which stops it when nobody has this lock. Therefore no process owns the server, and a daemon
  can adopt one that a command started.
- ``redis.server``: whoever starts the server takes it, and the server inherits it. So one process at a time starts
  one, and a second server on the same files or the same socket waits until the first one has ended, however that
  ends.
- ``daemon.lock``: keeps a second daemon away.

Every write is on disk before its answer (``appendfsync always``). ``redis/server.json`` records the newest server
that wrote the state. An older one is refused: Redis 6.2 opens the state of Redis 7 as empty, without an error.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
import signal
import socket
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from nbstream.errors import ConfigError, StoreUnavailable
from nbstream.store.embedded.locks import FileLock, translate_os_errors
from nbstream.store.embedded.server_programs import (
    ServerVersion,
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
STOP_SECONDS = 30.0  # for a guardian to stop its server: more than the guardian itself allows
ANSWER_SECONDS = 2.0
POLL_SECONDS = 0.02
LOG_BYTES = 1 << 20

_LOG_FILE = "redis.log"
_SOCKET_NAME = "redis.sock"
_SOCKET_PATH_BYTES = 107  # sun_path of unix(7), without its final NUL
_GUARDIAN_PROGRAM = Path(__file__).with_name("guardian.py")
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


def send_command(address: str, command: bytes) -> bytes:
    """Return the server's reply to one command: a line, or the content of a bulk string; raises ``OSError``."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(ANSWER_SECONDS)
        connection.connect(address)
        connection.sendall(command + b"\r\n")
        with connection.makefile("rb") as replies:
            line = replies.readline(1024)
            return replies.read(int(line[1:])) if line.startswith(b"$") else line


def _ping(address: str) -> bytes:
    """The server's reply to a PING, empty for no reply. One that is an error the store will report."""
    try:
        return send_command(address, b"PING")
    except OSError:
        return b""


class EmbeddedRedis:
    """The use of the server in ``state_dir`` by this process, from ``join`` to ``release`` or the process's end.

    ``servers`` are the programs to choose from, by default ``find_servers()``.
    """

    def __init__(self, state_dir: Path, servers: Sequence[Path] | None = None) -> None:
        self._state_dir = state_dir.absolute()
        self._folder = self._state_dir / "redis"
        self._server_programs = servers
        self._users_lock: FileLock | None = None
        self._folder_descriptor: int | None = None
        self._guardian: int | None = None
        self._log_start = 0

    async def join(self) -> str:
        """Begin the use, whether the server runs or not; return the path of its socket, valid until ``release``.

        Raises ConfigError for a folder that cannot be used, StoreUnavailable if the stop of a server takes too
        long.
        """
        try:
            if self._users_lock is None:
                with translate_os_errors(self._state_dir):
                    self._open()
            await self._lock_users()
        except BaseException:
            self._close()
            raise
        return self._socket_address

    async def ensure_running(self) -> None:
        """Start the server if it does not run, and return when it has loaded its files, in bounded time.

        Raises ConfigError if there is no server program, StoreIncompatible if all installed servers would lose the
        state, StoreUnavailable if the server does not answer in time.
        """
        if self._users_lock is None:
            raise StoreUnavailable("the embedded Redis is not in use: join comes first")
        with translate_os_errors(self._state_dir):
            await self._wait_until_ready()
            await asyncio.to_thread(self._record_version)

    async def release(self) -> None:
        """End the use; close all connections before.

        Where nobody else uses the server, return when it has stopped, at most ``STOP_SECONDS`` later. A service
        manager that kills the processes that a daemon leaves behind finds none then.
        """
        if self._users_lock is None:
            return
        self._close()
        with contextlib.suppress(OSError):  # includes TimeoutError
            async with asyncio.timeout(STOP_SECONDS):
                await self._wait_until_stopped()
        self._reap_guardian()

    @property
    def _socket_address(self) -> str:
        if self._folder_descriptor is None:
            return str(self._folder / _SOCKET_NAME)
        return f"/proc/self/fd/{self._folder_descriptor}/{_SOCKET_NAME}"

    def _open(self) -> None:
        for folder in (self._state_dir, self._folder):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        owner = self._folder.stat().st_uid
        if owner != os.geteuid():  # root would create files that the daemon cannot open
            raise ConfigError(f"{self._folder} belongs to {user_name(owner)}: {as_user(owner)}")
        if len(os.fsencode(self._folder / _SOCKET_NAME)) > _SOCKET_PATH_BYTES:
            if not Path("/proc/self/fd").is_dir():
                raise ConfigError(f"state_dir {self._state_dir} is too long for a unix socket: use a shorter one")
            self._folder_descriptor = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._users_lock = FileLock(self._state_dir / "redis.users")

    def _close(self) -> None:
        if self._users_lock is not None:
            self._users_lock.close()
        if self._folder_descriptor is not None:
            os.close(self._folder_descriptor)
        self._users_lock = self._folder_descriptor = None

    async def _lock_users(self) -> None:
        """Take the users' lock; it is refused only while a guardian stops the server."""
        assert self._users_lock is not None
        deadline = time.monotonic() + STOP_SECONDS
        while not self._users_lock.try_lock(fcntl.LOCK_SH):
            if time.monotonic() > deadline:
                raise self._start_failure("is still being stopped")
            await asyncio.sleep(POLL_SECONDS)

    async def _wait_until_ready(self) -> None:
        begin = time.monotonic()
        deadline = begin + START_SECONDS
        is_starting = False
        while not (reply := await asyncio.to_thread(_ping, self._socket_address)) or reply.startswith(_LOADING):
            if reply:
                deadline = min(time.monotonic() + START_SECONDS, begin + LOADING_SECONDS)
            elif not is_starting:
                is_starting = await asyncio.to_thread(self._start_server)
            elif self._reap_guardian():
                raise self._start_failure("did not start")
            if time.monotonic() > deadline:
                raise self._start_failure("does not answer")
            await asyncio.sleep(POLL_SECONDS)

    def _start_server(self) -> bool:
        """Start the server; return False where another process does, or one does not answer."""
        with FileLock(self._state_dir / "redis.server") as lock:
            if not lock.try_lock(fcntl.LOCK_EX):
                return False
            servers = find_servers() if self._server_programs is None else self._server_programs
            server, version = choose_server(servers, read_version_record(self._folder))
            if self._guardian is not None:
                _log.error("%s", self._start_failure("ended by itself and is started again"))
                self._reap_guardian()
            # First, because the server converts the files when it opens them.
            write_version_record(self._folder, version)
            log = self._folder / _LOG_FILE
            self._log_start = _file_size(log)
            if self._log_start > LOG_BYTES:
                log.replace(log.with_suffix(".log.old"))
                self._log_start = 0
            self._guardian = _start_guardian(self._state_dir / "redis.users", lock, log, server)
            return True

    def _reap_guardian(self) -> bool:
        """Reap the guardian that this process started, if it has ended; return False only if it still runs."""
        if self._guardian is not None:
            with contextlib.suppress(ChildProcessError):  # where SIGCHLD is ignored the kernel has reaped it
                if os.waitpid(self._guardian, os.WNOHANG)[0] == 0:
                    return False
            self._guardian = None
        return True

    def _start_failure(self, problem: str) -> StoreUnavailable:
        with contextlib.suppress(OSError), (self._folder / _LOG_FILE).open("rb") as log:
            log.seek(max(self._log_start, _file_size(self._folder / _LOG_FILE) - 2000))
            lines = log.read(2000).decode("utf-8", "replace").splitlines()[-8:]
            problem += "; its log ends:\n" + "\n".join(lines) if lines else ""
        return StoreUnavailable(f"the embedded Redis in {self._folder} {problem}")

    def _record_version(self) -> None:
        """Record the version of the running server, as it reports it: another process may have started it."""
        try:
            running = ServerVersion.parse(
                send_command(self._socket_address, b"INFO server").decode("utf-8", "replace")
            )
        except OSError as error:
            raise self._start_failure("went away") from error
        if running is None:
            raise self._start_failure("does not say its version")
        write_version_record(self._folder, running)

    async def _wait_until_stopped(self) -> None:
        """Return when the server has ended, or when somebody else uses it."""
        with (
            FileLock(self._state_dir / "redis.users") as users_lock,
            FileLock(self._state_dir / "redis.server") as server_lock,
        ):
            while not server_lock.try_lock(fcntl.LOCK_SH):
                # Where nobody uses the server, the guardian has the lock, or this may have it.
                if not users_lock.try_lock(fcntl.LOCK_EX) and users_lock.try_lock(fcntl.LOCK_SH):
                    return
                users_lock.unlock()
                await asyncio.sleep(POLL_SECONDS)


def _file_size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _start_guardian(users: Path, server_lock: FileLock, log: Path, server: Path) -> int:
    """Start a guardian and, under it, the server, which gets the lock; return the guardian's process id.

    It uses posix_spawn, because the guardian may outlive this process, and subprocess.Popen warns about that.
    """
    python = (sys.executable, "-I", "-S", str(_GUARDIAN_PROGRAM))
    environment = {"PATH": os.defpath, "LC_ALL": "C"}
    environment |= {name: os.environ[name] for name in ("LD_LIBRARY_PATH", "TZ") if name in os.environ}
    return os.posix_spawn(
        sys.executable,
        (*python, str(users), str(log.parent), str(server), *_SERVER_OPTIONS),
        environment,
        file_actions=[
            (os.POSIX_SPAWN_DUP2, server_lock.descriptor, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(log), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
        setsigmask=(),
        setsigdef=(signal.SIGCHLD, signal.SIGTERM, signal.SIGPIPE),
    )
