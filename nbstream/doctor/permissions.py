"""Who may read and write what nbstream has: the state folder, passwords, sockets, and the folders of mail."""

from __future__ import annotations

import grp
import os
import stat
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from nbstream.addresses import UnixAddress
from nbstream.daemon.listeners import LISTENERS
from nbstream.doctor.examination import in_thread, run_parts
from nbstream.findings import note, ok, problem, warning
from nbstream.settings.values import SecretFile
from nbstream.system_users import as_user, user_name, user_number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from nbstream.doctor.examination import Site
    from nbstream.findings import Finding

OTHER_USER = note(
    "permissions.user",
    "This examination runs as {own}, and the daemon as {daemon}: what the daemon may do can differ.",
    "To examine it as the daemon sees it, {command}.",
)
NO_STATE = note(
    "permissions.state_dir", "The state folder {folder} does not exist yet.", "A daemon makes it when it starts."
)
STATE_OPEN = warning(
    "permissions.state_dir",
    "Others may look into the state folder {folder} (mode {mode:04o}).",
    "Run chmod 700 {folder}.",
)
STATE_OF_OTHER = problem(
    "permissions.state_dir",
    "The state folder {folder} belongs to {owner}, and the daemon runs as {daemon}.",
    "Run chown -R {daemon} {folder}.",
)
STATE = ok("permissions.state_dir", "The state folder {folder} is for {owner} alone.")
SECRET_OPEN = problem(
    "permissions.secrets",
    "Everybody on this machine may read {file} ({key}, mode {mode:04o}).",
    "Run chmod 600 {file}, and give it to the daemon's user.",
)
SECRET_OF_GROUP = warning(
    "permissions.secrets",
    "The group {group} may read {file} ({key}, mode {mode:04o}).",
    "Run chmod 600 {file}, and give it to the daemon's user.",
)
SECRETS = ok("permissions.secrets", "Files with passwords and keys ({count}) can be read by their owners alone.")
SOCKET_MISSING = problem(
    "permissions.sockets",
    "The unix socket {path} of listeners.{listener} is not there.",
    "See in the log of the daemon why; something may have removed it, and then a restart makes it again.",
)
SOCKET_DIFFERS = warning(
    "permissions.sockets",
    "The socket {path} has the mode {mode:04o} and the group {group}, and listeners.{listener} says {wanted}.",
    "Restart the daemon, which makes the socket anew.",
)
NO_GROUP = problem(
    "permissions.sockets",
    "There is no group {group}, which listeners.{listener}.listen names: the daemon cannot start.",
    "Make the group, or name another one.",
)
NO_USER = problem(
    "permissions.sockets",
    "There is no user {user}, whom listeners.dovecot.trusted_users names: the daemon cannot start.",
    "Name the users that Dovecot's processes run as.",
)
SOCKETS = ok("permissions.sockets", "All unix sockets ({count}) have the modes and groups of the configuration.")
NOT_WRITABLE = problem(
    "permissions.folders",
    "{owner} may not write into {folder} ({purpose}).",
    "Give the folder to the daemon's user.",
)
FOLDER_OPEN = warning(
    "permissions.folders",
    "Others may look into {folder} ({purpose}, mode {mode:04o}).",
    "Run chmod 700 {folder}.",
)
FOLDERS = ok("permissions.folders", "The folders of mail can be written by the daemon alone.")

_OTHERS = 0o007
_GROUP_OR_OTHERS = 0o077


async def examine_permissions(site: Site) -> Sequence[Finding]:
    """Look at owners and modes."""
    parts = [partial(part, site) for part in (_user, _state_folder, _secrets, _names, _sockets, _mail_folders)]
    return await in_thread(lambda: run_parts("permissions", parts))


def _user(site: Site) -> Iterator[Finding]:
    user = site.daemon_user
    if user is not None and not site.is_daemon_user:
        yield OTHER_USER(own=user_name(os.geteuid()), daemon=user_name(user), command=as_user(user))


def _state_folder(site: Site) -> Iterator[Finding]:
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


def _secrets(site: Site) -> list[Finding]:
    files = dict(_secret_files(site.settings, ""))
    if site.settings.source and site.settings.redis.url_has_secret:
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


def _names(site: Site) -> Iterator[Finding]:
    """Yield the groups and users of listeners that this machine does not have."""
    for listener in LISTENERS:
        address = listener.listen_address(site.settings.listeners)
        if isinstance(address, UnixAddress) and address.group and not _is_known(grp.getgrnam, address.group):
            yield NO_GROUP(group=address.group, listener=listener.name)
    dovecot = site.settings.listeners.dovecot
    for user in dovecot.trusted_users if dovecot else ():
        if not _is_known(user_number, user):
            yield NO_USER(user=user)


def _is_known(find: Callable[[str], object], name: str) -> bool:
    try:
        find(name)
    except LookupError:
        return False
    return True


def _sockets(site: Site) -> list[Finding]:
    addresses = {listener.name: listener.listen_address(site.settings.listeners) for listener in LISTENERS}
    sockets = {name: address for name, address in addresses.items() if isinstance(address, UnixAddress)}
    if not site.may_have_daemon or not sockets:
        return []
    findings = [finding for name, address in sockets.items() for finding in _socket(name, address)]
    return findings or [SOCKETS(count=len(sockets))]


def _socket(listener: str, address: UnixAddress) -> Iterator[Finding]:
    try:
        status = address.path.stat()
    except FileNotFoundError:
        yield SOCKET_MISSING(path=address.path, listener=listener)
        return
    mode, group = stat.S_IMODE(status.st_mode), _group_name(status.st_gid)
    if mode != address.mode or address.group not in {None, group}:
        wanted = f"{address.mode:04o}{f' and {address.group}' if address.group else ''}"
        yield SOCKET_DIFFERS(path=address.path, mode=mode, group=group, listener=listener, wanted=wanted)


def _mail_folders(site: Site) -> list[Finding]:
    folders = {"the quarantine": site.settings.quarantine_folder}
    if site.relays_mail and site.settings.maildir_folder:
        folders["the Maildir of relay.next_hop"] = site.settings.maildir_folder
    existing = {purpose: folder for purpose, folder in folders.items() if folder.exists()}
    findings = [finding for purpose, folder in existing.items() for finding in _mail_folder(site, purpose, folder)]
    return findings or ([FOLDERS()] if existing else [])


def _mail_folder(site: Site, purpose: str, folder: Path) -> Iterator[Finding]:
    status, user = folder.stat(), site.daemon_user
    mode = stat.S_IMODE(status.st_mode)
    is_writable = os.access(folder, os.W_OK | os.X_OK) if user == os.geteuid() else status.st_uid == user
    if user is not None and not is_writable:
        yield NOT_WRITABLE(owner=user_name(user), folder=folder, purpose=purpose)
    elif mode & _OTHERS:
        yield FOLDER_OPEN(folder=folder, purpose=purpose, mode=mode)


def _group_name(group: int) -> str:
    try:
        return grp.getgrgid(group).gr_name
    except KeyError:
        return str(group)
