"""Shell completion: static scripts that shtab makes from the parser, so that a TAB starts no Python."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import shtab

from nbstream.cli import arguments
from nbstream.cli.command_line import build_parser

INSTALLED = {
    "bash": "share/bash-completion/completions/nbstream",
    "zsh": "share/zsh/site-functions/_nbstream",
    "fish": "share/fish/vendor_completions.d/nbstream.fish",
}
"""The path below the prefix where the script of each shell is installed; a shell finds it there below /usr."""

_FILES = (arguments.file_path, arguments.nonempty_path)


def script(shell: str) -> str:
    """Return the completion script of a shell."""
    parser = build_parser()
    for command_parser in _parsers(parser):
        for action in command_parser._actions:  # argparse has no public way to walk a parser
            if action.type in _FILES:
                action.complete = shtab.FILE  # type: ignore[attr-defined]  # where shtab looks for it
            if isinstance(action, argparse._SubParsersAction):
                action.help = ""  # shtab leaves out what the help does
                # The line in the list of commands is shorter than the description.
                for choice in action._choices_actions:
                    action.choices[choice.dest].description = choice.help
    return str(shtab.complete(parser, shell=shell))


def _parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Yield the parser and the parsers of all commands below it."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for child in action.choices.values():
                yield from _parsers(child)
