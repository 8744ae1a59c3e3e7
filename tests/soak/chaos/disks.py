"""Small file systems that can be filled, and filled they answer as a full disk does."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

_FILLER = "filler"


@contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[bool]:
    """Make ``folder`` a file system of that size; yield False where this user cannot, and it is a plain folder."""
    folder.mkdir()
    options = ["-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs"]
    mount, umount = shutil.which("mount"), shutil.which("umount")
    if mount is None or umount is None or os.geteuid() != 0:
        yield False
        return
    if subprocess.run([mount, *options, folder], capture_output=True, check=False).returncode:
        yield False
        return
    try:
        yield True
    finally:
        subprocess.run([umount, "--lazy", folder], check=True)


def fill(folder: Path) -> None:
    """Take all that is left."""
    with suppress(OSError), (folder / _FILLER).open("wb", buffering=0) as file:
        while file.write(b"x" * 65536):
            pass
    with suppress(OSError), (folder / _FILLER).open("ab", buffering=0) as file:
        while file.write(b"x" * 64):
            pass


def free(folder: Path) -> None:
    """Give it back."""
    (folder / _FILLER).unlink(missing_ok=True)


@asynccontextmanager
async def full(disk: Path) -> AsyncIterator[None]:
    """Fill the disk for a while."""
    await asyncio.to_thread(fill, disk)
    try:
        yield
    finally:
        free(disk)
