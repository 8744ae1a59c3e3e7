"""``nbstream config check FILE``: say what is wrong with a file, without starting anything."""

from __future__ import annotations

import argparse

from nbstream import config
from nbstream.cli.terminal import print_note
from nbstream.engine.choice import choose_engine


def run(options: argparse.Namespace) -> int:
    """Print the file's name and ``ok``; a file that cannot be used is a ``ConfigError`` (exit code 78)."""
    if options.file and options.config:
        options.wrong_usage("one FILE is checked: give it with or without -c")
    path = config.find_config_file(options.file or options.config)
    settings = config.load_settings(path)
    choose_engine(settings.engine)  # one that was asked for and does not fit is an error
    for warning in settings.warnings:
        print_note(f"warning: {warning}")
    print(f"{path or 'defaults'}: ok")
    return 0
