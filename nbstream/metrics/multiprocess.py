"""Metrics of several processes: counted together, in files that each maps into its memory, and the state of all.

Rules: every process has files of its own, named after its place among the workers and not after its process id. So
one that takes the place of a dead one goes on counting where that one was, however it died; there are never more
files than places, and what was counted is always the sum of all. The folder holds nothing that a restart needs.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import TYPE_CHECKING

from prometheus_client import values

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

SUPERVISOR = "parent"

_WORST_VALUE = {"nbstream_mirror_lag_seconds": max, "nbstream_redis_up": min}
_FILE_KINDS = ("counter", "histogram", "gauge_mostrecent", "gauge_livemostrecent", "gauge_livemax")
_FILE_BYTES = 1 << 18  # several times what all series take: a file that has to grow could meet a full disk


def prepare_folder(folder: Path, members: Iterable[str]) -> None:
    """Make the folder ready for these members: nothing is counted yet. Raises OSError."""
    folder.mkdir(mode=0o700, exist_ok=True)
    for old in folder.glob("*.db"):
        old.unlink()
    for member in members:
        create_member_files(folder, member)


def create_member_files(folder: Path, member: str) -> None:
    """Make the member's files where they are missing, with all their blocks. Raises OSError.

    A process that writes to a block of a mapped file for which the disk has no room is killed by SIGBUS (mmap(2)).
    """
    for kind in _FILE_KINDS:
        descriptor = os.open(folder / f"{kind}_{member}.db", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(descriptor, 0, _FILE_BYTES)
        finally:
            os.close(descriptor)


def join_folder(folder: Path, member: str) -> None:
    """Have all that this process counts from now on be counted in the folder, as this member.

    prometheus_client knows this for a process as a whole only, and not for one registry.
    """
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(folder)
    values.ValueClass = values.MultiProcessValue(lambda: member)  # type: ignore[no-untyped-call]


def member_died(folder: Path, member: str) -> None:
    """The member died: what it counted stays, what it measured of itself goes."""
    with suppress(OSError):  # a figure too many is no reason to end
        for file in folder.glob(f"gauge_live*_{member}.db"):
            file.unlink()


def merge_states(states: Sequence[str]) -> str:
    """The state as the first tells it, in Prometheus's text format, with the worst lag and Redis of all."""
    if not states:
        return ""
    found = states[0]
    for name, worst in _WORST_VALUE.items():
        line = re.compile(rf"^{name} (.+)$", re.MULTILINE)
        values = [value for state in states for value in line.findall(state)]
        found = line.sub(f"{name} {worst(values, key=float, default='')}", found)
    return found
