"""Builds the native library with cargo, offline, and puts it beside the module that loads it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
LIBRARY_FILE = ROOT / "nbstream" / "engine" / "libnbstream_native.so"


def build(profile: str = "release") -> Path | None:
    """Build the library and return its file, or None where there is no cargo.

    ``CARGO`` names another cargo. Raises ``subprocess.CalledProcessError`` where the build fails.
    """
    cargo = shutil.which(os.environ.get("CARGO", "cargo"))
    if cargo is None:
        return None
    manifest = ROOT / "native" / "Cargo.toml"
    subprocess.run(  # noqa: S603 - a fixed command
        [
            cargo,
            "build",
            "--offline",
            "--locked",
            "--quiet",
            "--profile",
            profile,
            "--manifest-path",
            str(manifest),
        ],
        check=True,
    )
    built = ROOT / "native" / "target" / profile / "libnbstream_native.so"
    # A process that has the old file loaded keeps it: the new one is another file.
    temporary = LIBRARY_FILE.with_suffix(".new")
    shutil.copyfile(built, temporary)
    temporary.replace(LIBRARY_FILE)
    return LIBRARY_FILE


if __name__ == "__main__":
    file = build(*sys.argv[1:])
    print(f"native library: {file}" if file else "native library: not built, there is no cargo")
