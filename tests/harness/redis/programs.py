"""The server programs on PATH that the sets run: Redis 7 or newer, and Valkey."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from nbstream.store.embedded import ServerVersion
from tests.harness.daemon import free_port

_OLDEST_REDIS = (7, 0, 0)  # the first with ``bind-source-addr``, ``cluster-port`` and ``SENTINEL DEBUG``


def server_programs() -> dict[str, Path]:
    """Return the path of the server program of each family that is on PATH."""
    programs = {}
    for family in ("redis", "valkey"):
        path = shutil.which(f"{family}-server")
        if path is None:
            continue
        text = subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout
        version = ServerVersion.parse(text)
        if version is not None and (version.server == "valkey" or version.number >= _OLDEST_REDIS):
            programs[version.server] = Path(path)
    return programs


def is_built_with_tls(program: Path) -> bool:
    """Return whether this server can speak TLS: one that can asks for a certificate, and ends."""
    words = [str(program), "--port", "0", "--tls-port", str(free_port())]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    return "tls-cert-file" in ended.stdout
