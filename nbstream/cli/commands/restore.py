"""``nbstream restore``: what ``nbstream backup`` wrote, into the site of the configuration.

Rules: the whole file is checked before anything is changed. No daemon runs on the state folder meanwhile. After an
interruption the same command goes on.
"""

from __future__ import annotations

import argparse
import os
from typing import IO, TYPE_CHECKING

from nbstream import config
from nbstream.assembly.store import open_running_redis
from nbstream.backup.restoring import check_backup, restore_backup
from nbstream.backup.writing import CONFIGURATION, Contents
from nbstream.cli import interrupts
from nbstream.cli.terminal import printable
from nbstream.errors import ConfigError, DaemonRunning, InputError
from nbstream.store.embedded.locks import daemon_pid, lock_daemon
from nbstream.system_users import as_user, user_name

if TYPE_CHECKING:
    from pathlib import Path

    from nbstream.config import Settings


def run(options: argparse.Namespace) -> int:
    """Restore, and print what; 66 for a damaged file, 75 while a daemon runs, 78 for a site that is not empty."""
    settings = config.load_settings(config.find_config_file(options.config))
    try:
        stream = options.file.open("rb")
    except OSError as error:
        raise InputError(f"{options.file}: {error.strerror}") from error
    with stream:
        if not stream.seekable():
            raise InputError(f"{options.file}: is read twice, which no pipe can be: copy it to a file first")
        contents = check_backup(settings, stream, str(options.file))
        if not options.list:
            stream.seek(0)
            interrupts.run_interruptible(_restore(settings, contents, stream, str(options.file)))
    for line in contents.describe():
        print(printable(line))
    if not options.list:
        print(printable(_what_next(settings, options.file)))
    return 0


async def _restore(settings: Settings, contents: Contents, stream: IO[bytes], file: str) -> None:
    state = settings.state_dir
    if (pid := daemon_pid(state)) is not None:
        raise DaemonRunning(f"a daemon (pid {pid}) runs on state_dir {state}: stop it and try again")
    if state.exists() and (owner := state.stat().st_uid) != os.geteuid():
        raise ConfigError(f"state_dir {state} belongs to {user_name(owner)}: {as_user(owner)}")
    with lock_daemon(state):
        async with open_running_redis(settings) as clients:
            await restore_backup(settings, clients, contents, stream, file)


def _what_next(settings: Settings, file: Path) -> str:
    return (
        f"restored into model {settings.model.name!r} and {settings.state_dir}. The configuration was not put in "
        f"place: tar -xzOf {file} {CONFIGURATION} prints it. Put back what is not in the backup, start the "
        "daemon, and see nbstream status"
    )
