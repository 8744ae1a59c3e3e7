"""The reference of the commands: usage, purpose, arguments and exit codes, from the parser of the command line.

The usage lines of argparse differ from one version of Python to the next; this module makes its own.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from nbstream.cli.command_line import CONFIG_HELP, CommandParser, build_parser
from nbstream.cli.exit_codes import EXIT_CODE_MEANINGS
from tools.reference.markup import NOTICE, Undocumented, definitions, plain, table


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument: how it is written, and its meaning."""

    words: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Command:
    """One command: its name without the program's, its usage line, purpose, details, arguments and exit codes.

    ``closing`` is the end of its help, such as examples; ``exit_codes`` are the codes that only this command has.
    """

    name: str
    usage: str
    purpose: str
    details: str
    arguments: tuple[Argument, ...]
    exit_codes: dict[int, str]
    closing: str


def commands(parser: argparse.ArgumentParser | None = None) -> list[Command]:
    """Return all commands, by default those of nbstream, in the order of the help. Raises ``Undocumented``."""
    return [_command(leaf, purpose) for leaf, purpose in _leaves(parser or build_parser())]


def _leaves(parser: argparse.ArgumentParser) -> Iterator[tuple[argparse.ArgumentParser, str]]:
    """Yield the parsers of the commands without commands below them, each with its line in the list of all."""
    for action in parser._actions:  # argparse has no public way to walk a parser
        if isinstance(action, argparse._SubParsersAction):
            purposes = {choice.dest: choice.help or "" for choice in action._choices_actions}
            for name, child in action.choices.items():
                nested = list(_leaves(child))
                yield from nested or [(child, purposes.get(name, ""))]


def _command(parser: argparse.ArgumentParser, purpose: str) -> Command:
    name = parser.prog.partition(" ")[2]
    if not purpose:
        raise Undocumented(f"the command {parser.prog} has no help")
    description = parser.description or purpose
    return Command(
        name,
        usage(parser),
        purpose,
        description.removeprefix(purpose).lstrip(". "),
        tuple(_arguments(parser)),
        dict(parser.exit_codes) if isinstance(parser, CommandParser) else {},
        (parser.epilog or "").strip(),
    )


def _arguments(parser: argparse.ArgumentParser) -> Iterator[Argument]:
    for action in _documented_actions(parser):
        if action.dest == "config" and action.help == CONFIG_HELP:
            continue  # the same for every command: the page says it once
        names = ", ".join(action.option_strings)
        if not action.help:
            raise Undocumented(f"the argument {names or _value_words(action)} of {parser.prog} has no help")
        words = _value_words(action)
        text = action.help.replace("%%", "%")  # as argparse prints it
        yield Argument(f"{names} {words}".strip() if action.nargs != 0 else names, text)


def _documented_actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """Return all arguments but ``--help``, which every command has; positional arguments first."""
    actions = [action for action in parser._actions if not isinstance(action, argparse._HelpAction)]
    return sorted(actions, key=lambda action: bool(action.option_strings))


def usage(parser: argparse.ArgumentParser) -> str:
    """Return the usage on one line, without ``--help``."""
    if parser.usage:
        return (parser.usage % {"prog": parser.prog}).replace("[-h] ", "")
    groups = {
        action: group._group_actions
        for group in parser._mutually_exclusive_groups
        for action in group._group_actions
    }
    pieces = [parser.prog]
    for action in sorted(_documented_actions(parser), key=lambda action: not action.option_strings):
        group = groups.get(action, [action])
        if action is group[0]:
            pieces.append(_piece(action) if len(group) == 1 else _exclusive_pieces(group))
    return " ".join(pieces)


def _exclusive_pieces(actions: list[argparse.Action]) -> str:
    return "[" + " | ".join(_piece(action).strip("[]") for action in actions) + "]"


def _piece(action: argparse.Action) -> str:
    name = action.option_strings[0] if action.option_strings else ""
    piece = f"{name} {_value_words(action)}".strip() if action.nargs != 0 else name
    return piece if action.required and not name else f"[{piece}]"


def _value_words(action: argparse.Action) -> str:
    """Return the value of an argument as usage lines and tables show it."""
    if action.nargs == 0:
        return ", ".join(action.option_strings)
    if action.metavar is None and action.choices is not None:
        word = "|".join(map(str, action.choices))
    else:
        metavar = action.metavar or action.dest.upper()
        word = metavar if isinstance(metavar, str) else " ".join(metavar)
    return f"{word} ..." if action.nargs in {"+", "*"} else word


def page() -> str:
    """Return the page as Markdown."""
    every = commands()
    uses = Counter(argument for command in every for argument in command.arguments)
    most = {argument.words: argument for argument, count in reversed(uses.most_common()) if count > 1}
    shared = [argument for argument in uses if most.get(argument.words) == argument]
    text = NOTICE + _INTRODUCTION + WORDS + _exit_codes() + _SHARED + _arguments_text(shared)
    return text + "".join(_section(command, shared) for command in every)


_INTRODUCTION = """
# Commands

`nbstream COMMAND --help` and the manual page nbstream(1) have examples too. Run the commands as the daemon's user:
they find a running daemon's private Redis, or start it for as long as they need it. Each takes `-c FILE`, the
[configuration](settings.md). Completion for bash, zsh and fish is below `share` of the installation's prefix.
"""

_SHARED = """
## Arguments of several commands

Where a command says nothing else, they mean:

"""

WORDS = """
PATH is a message, an mbox, a Maildir (its own `cur` and `new`, not the folders inside it such as `.Junk`), any
other folder (all files in it, at any depth, except hidden files, pipes and devices), or `-` for standard input. An
ID is the `id` in the `X-Nbstream` field of a message. A TIME is an age (`30m`, `2h`, `3d`) or a moment
(`2026-01-31T12:00+01:00`, local without an offset). Many paths in one call are quicker than many calls.
"""


def _exit_codes() -> str:
    rows = [(str(code), meaning) for code, meaning in EXIT_CODE_MEANINGS.items()]
    return "\n## Exit codes\n\nThese hold for every command.\n\n" + table(("code", "meaning"), rows)


def _arguments_text(arguments: Iterable[Argument]) -> str:
    return definitions((argument.words, "", plain(argument.meaning)) for argument in arguments)


def _section(command: Command, shared: Collection[Argument]) -> str:
    text = f"\n## nbstream {command.name}\n\n{sentence(command.purpose)}"
    text += f" {command.details}" * bool(command.details)
    text += f"\n\n```text\n{command.usage.replace(' [-c FILE]', '')}\n```\n"
    own = [argument for argument in command.arguments if argument not in shared]
    if own:
        text += "\n" + _arguments_text(own)
    if command.exit_codes:
        codes = " ".join(f"**{code}**: {meaning}" for code, meaning in command.exit_codes.items())
        text += f"\nExit codes: {codes}\n"
    return text


def sentence(text: str) -> str:
    """Return a help text, which begins in lower case and has no full stop, as a sentence."""
    return f"{text[0].upper()}{text[1:].rstrip('.')}."
