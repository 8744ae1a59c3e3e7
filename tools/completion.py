"""Shell completion, by shtab from the parser of the command line: static scripts, no Python starts at a TAB."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import shtab

from nbstream.cli import arguments
from nbstream.cli.parser import build_parser

INSTALLED = {
    "bash": "share/bash-completion/completions/nbstream",
    "zsh": "share/zsh/site-functions/_nbstream",
    "fish": "share/fish/vendor_completions.d/nbstream.fish",
}
"""Where the script of each shell is installed, below the prefix: its shell looks for it there below /usr."""

_FILES = (arguments.file_path, arguments.nonempty_path, arguments.plot_file)


def script(shell: str) -> str:
    """The completion script of a shell."""
    parser = build_parser()
    for each in _parsers(parser):
        for action in each._actions:  # argparse has no public way to walk a parser
            if action.type in _FILES:
                action.complete = shtab.FILE  # type: ignore[attr-defined]  # where shtab looks for it
            if isinstance(action, argparse._SubParsersAction):
                for choice in action._choices_actions:  # the line of the list says it shorter than the description
                    action.choices[choice.dest].description = choice.help
    return str(shtab.complete(parser, shell=shell))


def _parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """The parser and all parsers of commands below it."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield from _parsers(below)
