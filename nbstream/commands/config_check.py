"""``nbstream config check FILE``: say what is wrong with a file, without starting anything."""

from __future__ import annotations

import argparse

from nbstream import config


def run(options: argparse.Namespace) -> int:
    """Print ``ok``; a file that cannot be used is a ``ConfigError`` (exit code 78)."""
    config.load(config.find_config(options.config))
    print(f"{options.config}: ok")
    return 0
