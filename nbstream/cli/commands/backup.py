"""``nbstream backup``: all that a site cannot make again as one file, while its daemon runs.

Rules: only its owner can read the file. It gets its name once it is whole and on disk: a backup that fails, or is
killed, leaves what was there before.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from nbstream import config
from nbstream.assembly.store import open_running_redis
from nbstream.backup.writing import write_backup
from nbstream.cli import interrupts
from nbstream.cli.commands.export import STANDARD_OUTPUT, open_output
from nbstream.cli.terminal import print_note, printable


def run(options: argparse.Namespace) -> int:
    """Write a backup and print what is in it; 74 for a file that cannot be written, 75 when Redis is away."""
    return interrupts.run_interruptible(_run(options))


async def _run(options: argparse.Namespace) -> int:
    settings = config.load_settings(config.find_config_file(options.config))
    is_output = options.file == STANDARD_OUTPUT
    with open_output(options.file) as stream:
        async with open_running_redis(settings) as clients:
            folder = None if is_output else str(Path(options.file).parent)
            contents = await write_backup(settings, clients, stream, folder)
    text = "\n".join(map(printable, contents.describe()))
    (print_note if is_output else print)(text)
    return 0
