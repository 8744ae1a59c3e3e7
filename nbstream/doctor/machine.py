"""The machine: room on disks, what waits in the spool of reported messages, and who may read what nbstream has."""

from __future__ import annotations

import grp
import os
import stat
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from nbstream.doctor.redis_server import format_bytes
from nbstream.findings import note, ok, problem, warning
from nbstream.listeners.dovecot.spool import FAILED, MAX_FAILED, SpoolBacklog, measure_backlog
from nbstream.settings.values import SecretFile
from nbstream.store.settings import url_has_password
from nbstream.system_users import as_user, user_name

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
    "Reported messages wait to be learned ({count}), the oldest for {minutes:.0f} min.",
    "See the findings about Redis and the daemon's log: they are learned when Redis accepts lessons again.",
)
SPOOL_WITHOUT_LISTENER = warning(
    "machine.spool",
    "Reported messages wait to be learned ({count}), but listeners.dovecot is off.",
    "Enable listeners.dovecot until none is left.",
)
SPOOL_FAILED = warning(
    "machine.spool",
    "Reported messages could not be learned and are in {folder} ({count}).",
    "Inspect them, teach them with nbstream learn, and remove them: after {limit} of them the spool stops.",
)
SPOOL = ok("machine.spool", "Reported messages that wait to be learned: {count}.")

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


# Who may read and write what nbstream has: the state folder, and passwords and keys.

OTHER_USER = note(
    "permissions.user",
    "This examination runs as {own}, but the daemon as {daemon}: permissions may differ.",
    "To examine with the daemon's permissions, {command}.",
)
NO_STATE = note(
    "permissions.state_dir", "The state folder {folder} does not exist yet.", "The daemon creates it at startup."
)
STATE_OPEN = warning(
    "permissions.state_dir",
    "Others can read the state folder {folder} (mode {mode:04o}).",
    "Run chmod 700 {folder}.",
)
STATE_OF_OTHER = problem(
    "permissions.state_dir",
    "The state folder {folder} belongs to {owner}, but the daemon runs as {daemon}.",
    "Run chown -R {daemon} {folder}.",
)
STATE = ok("permissions.state_dir", "Only {owner} can read the state folder {folder}.")
SECRET_OPEN = problem(
    "permissions.secrets",
    "Everybody on this machine can read {file} ({key}, mode {mode:04o}).",
    "Run chmod 600 {file}, and make the daemon's user its owner.",
)
SECRET_OF_GROUP = warning(
    "permissions.secrets",
    "The group {group} can read {file} ({key}, mode {mode:04o}).",
    "Run chmod 600 {file}, and make the daemon's user its owner.",
)
SECRETS = ok("permissions.secrets", "Only their owners can read the files with passwords and keys ({count}).")

_OTHERS = 0o007
_GROUP_OR_OTHERS = 0o077


def examine_user(site: Site) -> Iterator[Finding]:
    """Yield whether this runs as another user than the daemon."""
    user = site.daemon_user
    if user is not None and not site.is_daemon_user:
        yield OTHER_USER(own=user_name(os.geteuid()), daemon=user_name(user), command=as_user(user))


def examine_state_folder(site: Site) -> Iterator[Finding]:
    """Yield who may read the state folder."""
    folder, user = site.settings.state_dir, site.daemon_user
    try:
        status = folder.stat()
    except FileNotFoundError:
        yield NO_STATE(folder=folder)
        return
    mode = stat.S_IMODE(status.st_mode)
    if user is not None and status.st_uid != user:
        yield STATE_OF_OTHER(folder=folder, owner=user_name(status.st_uid), daemon=user_name(user))
    elif mode & _GROUP_OR_OTHERS:
        yield STATE_OPEN(folder=folder, mode=mode)
    else:
        yield STATE(folder=folder, owner=user_name(status.st_uid))


def examine_secrets(site: Site) -> list[Finding]:
    """Return who may read passwords and keys."""
    files = dict(_secret_files(site.settings, ""))
    if site.settings.source and url_has_password(site.settings.redis.url):
        files["redis.url"] = site.settings.source
    findings = [finding for key, file in files.items() for finding in _secret_file(key, file)]
    return findings or ([SECRETS(count=len(files))] if files else [])


def _secret_files(section: BaseModel, prefix: str) -> Iterator[tuple[str, Path]]:
    """Yield the dotted key and the path of each file with a password, and of each key file of TLS."""
    for name in type(section).model_fields:
        value: Any = getattr(section, name)
        if isinstance(value, BaseModel):
            yield from _secret_files(value, f"{prefix}{name}.")
        elif isinstance(value, SecretFile):
            yield prefix + name, value.path
        elif name.endswith("key_file") and isinstance(value, Path):
            yield prefix + name, value


def _secret_file(key: str, file: Path) -> Iterator[Finding]:
    with suppress(FileNotFoundError):  # it was there when the configuration was read
        status = file.stat()
        mode = stat.S_IMODE(status.st_mode)
        if mode & _OTHERS:
            yield SECRET_OPEN(file=file, key=key, mode=mode)
        elif mode & _GROUP_OR_OTHERS and status.st_uid != 0:
            # Of a file of root the group is the only way to the daemon's user.
            yield SECRET_OF_GROUP(file=file, key=key, mode=mode, group=_group_name(status.st_gid))


def _group_name(group: int) -> str:
    try:
        return grp.getgrgid(group).gr_name
    except KeyError:
        return str(group)
