"""``nbstream config``: say what is wrong with a file, or what holds and where it comes from."""

from __future__ import annotations

import argparse

from nbstream import config
from nbstream.cli.terminal import print_note
from nbstream.config.showing import show_defaults, show_for_recipient, show_settings
from nbstream.errors import ConfigError
from nbstream.settings.document import Document, read_document


def run(options: argparse.Namespace) -> int:
    """Do what ``ACTION`` says; a file that cannot be used is a ``ConfigError`` (exit code 78)."""
    return _show(options) if options.action == "show" else _check(options)


def _check(options: argparse.Namespace) -> int:
    """Print the file's name and ``ok``."""
    if options.file and options.config:
        options.wrong_usage("one FILE is checked: give it with or without -c")
    path = config.find_config_file(options.file or options.config)
    settings = config.load_settings(path)
    try:
        settings.own_models.read_aliases()
    except (OSError, ValueError) as error:
        raise ConfigError(f"own_models.alias_file cannot be used: {error}") from error
    for warning in settings.warnings:
        print_note(f"warning: {warning}")
    print(f"{path or 'defaults'}: ok")
    return 0


def _show(options: argparse.Namespace) -> int:
    """Print every key with its value, or what holds for one recipient."""
    if options.defaults:
        print(show_defaults(config.make_settings({})), end="")
        return 0
    path = config.find_config_file(options.config)
    settings = config.load_settings(path)
    print_note(f"configuration: {path or 'the defaults'}")
    if options.recipient:
        print(show_for_recipient(settings, options.recipient), end="")
        return 0
    print(show_settings(settings, read_document(path) if path else Document()), end="")
    return 0
