"""The machine: room on disks, and what waits in the spool of reported messages."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from nbstream.doctor.redis_server import format_bytes
from nbstream.findings import ok, problem, warning
from nbstream.listeners.dovecot.spool import FAILED, MAX_FAILED, SpoolBacklog, measure_backlog

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nbstream.doctor.examination import Site
    from nbstream.findings import Finding

DISK_FULL = problem(
    "machine.disk",
    "The disk of {folder} has {free} left.",
    "Free disk space: a full disk defers mail and feedback, and stops an embedded Redis.",
)
DISK_SHORT = warning("machine.disk", "The disk of {folder} has {free} left.", "Free disk space before it is full.")
DISK = ok("machine.disk", "The disk of {folder} has {free} left.")
SPOOL_LATE = warning(
    "machine.spool",
    "{count} reported messages are waiting to be learned, the oldest for {minutes:.0f} minutes.",
    "See the findings about Redis and the daemon's log: they are learned when Redis accepts lessons again.",
)
SPOOL_WITHOUT_LISTENER = warning(
    "machine.spool",
    "{count} reported messages are waiting to be learned, but listeners.dovecot is off.",
    "Enable listeners.dovecot until none is left.",
)
SPOOL_FAILED = warning(
    "machine.spool",
    "{count} reported messages could not be learned and are in {folder}.",
    "Inspect them, teach them with nbstream learn, and remove them: after {limit} of them the spool stops.",
)
SPOOL = ok("machine.spool", "{count} reported messages are waiting to be learned.")

_FULL_BYTES = 100 << 20
_SHORT_BYTES = 1 << 30
_LATE_SECONDS = 60.0


def examine_disks(site: Site) -> Iterator[Finding]:
    """Yield how much room the disks have."""
    settings = site.settings
    folders = [settings.state_dir, settings.quarantine_folder]
    if site.relays_mail and settings.maildir_folder:
        folders.append(settings.maildir_folder)
    seen: set[int] = set()
    for folder in folders:
        existing = next(path for path in (folder.absolute(), *folder.absolute().parents) if _exists(path))
        device = existing.stat().st_dev
        if device in seen:
            continue
        seen.add(device)
        yield disk_finding(folder, os.statvfs(existing))


def _exists(path: Path) -> bool:
    """Whether it is there and may be seen; what is in a folder for another user alone may not."""
    try:
        return path.exists()
    except PermissionError:
        return False


def disk_finding(folder: Path, status: os.statvfs_result) -> Finding:
    """Return what is to be said of the file system of a folder."""
    free = status.f_bavail * status.f_frsize
    kind = DISK_FULL if free < _FULL_BYTES else DISK_SHORT if free < _SHORT_BYTES else DISK
    return kind(folder=folder, free=format_bytes(free))


def examine_spool(site: Site) -> Iterator[Finding]:
    """Yield what waits in the spool of reported messages, where there is a listener for it or something waits."""
    state_dir, is_on = site.settings.state_dir, site.settings.listeners.dovecot is not None
    backlog = measure_backlog(state_dir)
    if not is_on and backlog == SpoolBacklog():
        return
    seconds = backlog.oldest_seconds(time.time())
    if backlog.waiting and not is_on:
        yield SPOOL_WITHOUT_LISTENER(count=backlog.waiting)
    elif seconds > _LATE_SECONDS:
        yield SPOOL_LATE(count=backlog.waiting, minutes=seconds / 60)
    else:
        yield SPOOL(count=backlog.waiting)
    if backlog.failed:
        yield SPOOL_FAILED(count=backlog.failed, folder=state_dir / FAILED, limit=MAX_FAILED)
