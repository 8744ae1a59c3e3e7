"""The embedded Redis: a private redis-server or valkey-server in ``state_dir/redis``, on a unix socket only.

Rules. Kernel locks decide, never pid files: a lock goes when its last holder goes, however that ends.
``redis.users`` is held shared by every process that uses the server; the guardian (``guardian.py``), under
which the server runs, stops it when nobody holds that lock. So a daemon adopts the server that a command
started, and no process owns it. ``redis.start`` lets one process at a time start it, ``redis.server`` is held
by the server process itself, ``daemon.lock`` keeps a second daemon away. Lock files are never deleted: else
two processes could each hold "the" lock, on two files of one name.

Every write is on disk before its answer (``appendfsync always``). ``redis/server.json`` names the newest server
that wrote the state. An older one is refused: Redis 6.2 opens what Redis 7 wrote as empty, without an error.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
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

if TYPE_CHECKING:
    from collections.abc import Sequence

_log = logging.getLogger(__name__)

START_SECONDS = 30.0  # until the server answers, and between two signs that it is loading
LOADING_SECONDS = 600.0  # for loading, in all
STOP_SECONDS = 30.0  # for a guardian to stop its server: more than it allows itself
ANSWER_SECONDS = 2.0
POLL_SECONDS = 0.02
LOG_BYTES = 1 << 20

_LOG_FILE = "redis.log"
_SOCKET_NAME = "redis.sock"
_SOCKET_PATH_BYTES = 107  # sun_path of unix(7), without its final NUL
_GUARDIAN_PROGRAM = Path(__file__).with_name("guardian.py")
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
)


class PingResult(enum.Enum):
    """What a PING of the socket says about the server."""

    ABSENT = enum.auto()
    SILENT = enum.auto()
    LOADING = enum.auto()
    READY = enum.auto()


def send_command(address: str, command: bytes) -> bytes:
    """The server's reply to one command: its line, or the content of its bulk string."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(ANSWER_SECONDS)
        connection.connect(address)
        connection.sendall(command + b"\r\n")
        with connection.makefile("rb") as replies:
            line = replies.readline(1024)
            return replies.read(int(line[1:])) if line.startswith(b"$") else line


def ping(address: str) -> PingResult:
    """Ready is also a server that answers with an error, such as a full disk's: the store reports that."""
    try:
        reply = send_command(address, b"PING")
    except (FileNotFoundError, ConnectionRefusedError):
        return PingResult.ABSENT
    except OSError:
        return PingResult.SILENT
    if reply.startswith(b"-LOADING"):
        return PingResult.LOADING
    return PingResult.READY if reply else PingResult.SILENT


class EmbeddedRedis:
    """This process's use of the server in ``state_dir``, from ``start`` to ``release`` or to the process's end.

    ``servers`` are the programs to choose from, ``find_servers()`` if not given.
    """

    def __init__(self, state_dir: Path, servers: Sequence[Path] | None = None) -> None:
        self._state_dir = state_dir.absolute()
        self._folder = self._state_dir / "redis"
        self._server_programs = servers
        self._users_lock: FileLock | None = None
        self._folder_descriptor: int | None = None
        self._guardian: int | None = None
        self._log_start = 0

    async def start(self) -> str:
        """Join the running server, or start it; returns the path of its socket, good until ``release``.

        Raises what ``join`` and ``ensure_running`` raise.
        """
        address = await self.join()
        try:
            await self.ensure_running()
        except BaseException:
            self._close()
            raise
        return address

    async def join(self) -> str:
        """Begin the use, whether the server runs or not; returns the path of its socket, good until ``release``.

        Raises ConfigError for a folder that cannot be used, StoreUnavailable while a server is being stopped for
        too long.
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
        """Return when the server answers, started if it does not run; in bounded time.

        Raises ConfigError if there is no server program, StoreIncompatible if only servers are installed that
        would lose the state, StoreUnavailable if the server does not answer in time.
        """
        if self._users_lock is None:
            raise StoreUnavailable("the embedded Redis is not in use: start comes first")
        with translate_os_errors(self._state_dir):
            await self._wait_until_ready()
            await asyncio.to_thread(self._record_version)

    async def release(self, wait: bool = True) -> None:
        """End the use; connections are to be closed before.

        With ``wait``, and if nobody else uses the server, returns when it has stopped (or ``STOP_SECONDS``
        later), so that a service manager which kills what a daemon leaves behind finds nothing.
        """
        if self._users_lock is None:
            return
        self._close()
        if wait:
            with contextlib.suppress(OSError):  # TimeoutError too
                async with asyncio.timeout(STOP_SECONDS):
                    await self._wait_until_gone()
        self._guardian_has_ended()

    @property
    def _socket_address(self) -> str:
        if self._folder_descriptor is None:
            return str(self._folder / _SOCKET_NAME)
        return f"/proc/self/fd/{self._folder_descriptor}/{_SOCKET_NAME}"

    def _open(self) -> None:
        for folder in (self._state_dir, self._folder):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        owner = self._folder.stat().st_uid
        if owner != os.geteuid():  # root would leave files behind that the daemon cannot open
            raise ConfigError(f"{self._folder} belongs to user id {owner}: run this as that user")
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
        spawned = False
        with FileLock(self._state_dir / "redis.start") as turn:
            while (answer := await asyncio.to_thread(ping, self._socket_address)) is not PingResult.READY:
                if answer is PingResult.LOADING:
                    deadline = min(time.monotonic() + START_SECONDS, begin + LOADING_SECONDS)
                elif spawned and self._guardian_has_ended():
                    raise self._start_failure("did not start")
                elif answer is PingResult.ABSENT and not spawned and turn.try_lock(fcntl.LOCK_EX):
                    spawned = await asyncio.to_thread(self._spawn_unless_started)
                if time.monotonic() > deadline:
                    raise self._start_failure("does not answer")
                await asyncio.sleep(POLL_SECONDS)

    def _spawn_unless_started(self) -> bool:
        """Start the server; False if another process did, before it was our turn."""
        if ping(self._socket_address) is not PingResult.ABSENT:
            return False
        servers = find_servers() if self._server_programs is None else self._server_programs
        server, version = choose_server(servers, read_version_record(self._folder))
        if self._guardian is not None:
            _log.error("%s", self._start_failure("ended by itself and is started again"))
        write_version_record(self._folder, version)  # before: it converts the files as soon as it opens them
        self._guardian_has_ended()
        log = self._folder / _LOG_FILE
        self._log_start = _file_size(log)
        if self._log_start > LOG_BYTES:
            log.replace(log.with_suffix(".log.old"))
            self._log_start = 0
        self._guardian = _spawn_server(self._state_dir, log, server)
        return True

    def _guardian_has_ended(self) -> bool:
        """True unless a guardian that we started runs; takes note of the end of one that does not."""
        if self._guardian is not None:
            with contextlib.suppress(ChildProcessError):  # SIGCHLD ignored: the kernel took note
                if os.waitpid(self._guardian, os.WNOHANG)[0] == 0:
                    return False
            self._guardian = None
        return True

    def _start_failure(self, what: str) -> StoreUnavailable:
        with contextlib.suppress(OSError), (self._folder / _LOG_FILE).open("rb") as log:
            log.seek(max(self._log_start, _file_size(self._folder / _LOG_FILE) - 2000))
            lines = log.read(2000).decode("utf-8", "replace").splitlines()[-8:]
            what += "; its log ends:\n" + "\n".join(lines) if lines else ""
        return StoreUnavailable(f"the embedded Redis in {self._folder} {what}")

    def _record_version(self) -> None:
        """Record which server writes here; the server is asked, as another process may have started it."""
        try:
            running = ServerVersion.parse(
                send_command(self._socket_address, b"INFO server").decode("utf-8", "replace")
            )
        except OSError as error:
            raise self._start_failure("went away") from error
        if running is None:
            raise self._start_failure("does not say its version")
        write_version_record(self._folder, running)

    async def _wait_until_gone(self) -> None:
        """Return when server and guardian are gone, or when somebody else uses the server."""
        with (
            FileLock(self._state_dir / "redis.users") as users,
            FileLock(self._state_dir / "redis.server") as server,
        ):
            while True:
                unused = users.try_lock(fcntl.LOCK_EX)  # else: other users, or the guardian that stops the server
                used = not unused and users.try_lock(fcntl.LOCK_SH)
                users.unlock()
                if used or (unused and server.try_lock(fcntl.LOCK_SH)):
                    return
                await asyncio.sleep(POLL_SECONDS)


def _file_size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _spawn_server(state_dir: Path, log: Path, server: Path) -> int:
    """Start a guardian and, under it, the server; returns the guardian's process id.

    posix_spawn, because the guardian may outlive us: a subprocess.Popen warns when it is left behind.
    """
    locks = (str(state_dir / "redis.users"), str(state_dir / "redis.server"))
    command = [
        sys.executable,
        "-I",
        "-S",
        str(_GUARDIAN_PROGRAM),
        *locks,
        str(log.parent),
        str(server),
        *_SERVER_OPTIONS,
    ]
    environment = {"PATH": os.defpath, "LC_ALL": "C"}
    environment |= {name: os.environ[name] for name in ("LD_LIBRARY_PATH", "TZ") if name in os.environ}
    return os.posix_spawn(
        command[0],
        command,
        environment,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(log), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
        setsigmask=(),
        setsigdef=(signal.SIGCHLD, signal.SIGTERM, signal.SIGPIPE),
    )
