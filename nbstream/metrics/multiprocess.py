"""Metrics of several processes, which count together in files that each process maps into its memory.

Rules: every process has files of its own, named after its worker slot and not after its process id. A worker that
replaces a dead one continues its counts, however that one died; there are never more files than slots, and the sum
over all files is always what was counted. The folder contains nothing that a restart needs.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from prometheus_client import values

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

SUPERVISOR = "supervisor"
"""The name of the supervisor among the members; the others are the numbers of the worker slots."""

_FILE_KINDS = (
    "counter",
    "histogram",
    "gauge_mostrecent",
    "gauge_livemostrecent",
    "gauge_livemax",
    "gauge_livemin",
    "gauge_livesum",
)
_FILE_BYTES = 1 << 18  # several times what all series take: a file that has to grow may find the disk full


def prepare_folder(folder: Path, members: Iterable[str]) -> None:
    """Make the folder ready for these members, with all counts at 0. Raises OSError."""
    folder.mkdir(mode=0o700, exist_ok=True)
    for file in folder.glob("*.db"):
        file.unlink()
    for member in members:
        create_member_files(folder, member)


def create_member_files(folder: Path, member: str) -> None:
    """Make the member's files where they are missing, and allocate all their blocks. Raises OSError.

    SIGBUS kills a process that writes to a mapped file's block for which the disk has no room (mmap(2)). A
    file gets its name last: nobody can read the metrics of any process while one file is shorter than its head.
    """
    new = folder / f"{member}.new"
    for kind in _FILE_KINDS:
        file = folder / f"{kind}_{member}.db"
        if file.exists():
            continue
        descriptor = os.open(new, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(descriptor, 0, _FILE_BYTES)
        finally:
            os.close(descriptor)
        new.rename(file)


def join_folder(folder: Path, member: str) -> None:
    """Make this process count in the folder from now on, as this member.

    prometheus_client has this setting for a whole process only, not for one registry.
    """
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(folder)
    values.ValueClass = values.MultiProcessValue(lambda: member)  # type: ignore[no-untyped-call]


def member_died(folder: Path, member: str) -> None:
    """Remove what a dead member measured of itself; what it counted stays."""
    with suppress(OSError):  # a gauge too many is no reason to end the daemon
        for file in folder.glob(f"gauge_live*_{member}.db"):
            file.unlink()
