"""Loads every command, in the process from which ``forked`` makes theirs."""

import pkgutil

from nbstream.cli import commands
from nbstream.cli.main import import_command

for found in pkgutil.iter_modules(commands.__path__, f"{commands.__name__}."):
    import_command(found.name)
