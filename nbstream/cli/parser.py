"""What the parsers of all commands share: ``-c``, the form of the help, and how wrong words are refused."""

from __future__ import annotations

import argparse
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from nbstream.cli import arguments
from nbstream.cli.exit_codes import EX_USAGE
from nbstream.cli.terminal import print_note, printable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


CONFIG_HELP = (
    "configuration (default: the first of ./nbstream.yaml, ~/.config/nbstream/nbstream.yaml and "
    "/etc/nbstream/nbstream.yaml)"
)


class CommandParser(argparse.ArgumentParser):
    """argparse with the exit code of sysexits.h for wrong usage (2 stays free of meaning), and whole options only.

    A beginning of an option, such as ``--y`` for ``--yes``, is refused: in the next version it could mean
    another one.
    """

    exit_codes: Mapping[int, str] = MappingProxyType({})
    """What the exit codes mean for this command where it says more than ``EXIT_CODE_MEANINGS``."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **{**options, "allow_abbrev": False})

    def error(self, message: str) -> NoReturn:
        """Print the usage and what is wrong on standard error, and exit with 64."""
        print_note(f"{self.format_usage()}{self.prog}: {printable(message)}")
        self.exit(EX_USAGE)

    def parse_known_args(  # type: ignore[override]  # what the two overloads of the stub come to
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Refuse unknown words here: argparse leaves them to the outermost parser, with the usage of that one."""
        options, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return options, unknown


class _HelpFormatter(argparse.HelpFormatter):
    """Wraps what a command does, and leaves its examples as they stand."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:  # argparse's own formatters override it too
        return text if text.startswith(_EXAMPLES_HEAD) else super()._fill_text(text, width, indent)


_EXAMPLES_HEAD = "examples:"

CONFIG_OPTION = CommandParser(add_help=False)
"""The parent of all commands: ``-c`` sets nothing where it is not given, since it may stand before the command."""
CONFIG_OPTION.add_argument(
    "-c", "--config", type=arguments.file_path, default=argparse.SUPPRESS, metavar="FILE", help=CONFIG_HELP
)

Commands: TypeAlias = "argparse._SubParsersAction[CommandParser]"  # argparse has no public name for it


def add_command(
    commands: Commands,
    name: str,
    purpose: str,
    *,
    details: str = "",
    examples: tuple[str, str],
    exit_codes: Mapping[int, str] = MappingProxyType({}),
) -> CommandParser:
    """Add a command that takes ``-c`` and whose help ends with its examples.

    Its purpose stands in the list of all commands and in its own help, the details only there. ``exit_codes`` are
    those that mean more, or something else, than for all commands. Its module in ``nbstream.cli.commands`` has its
    name, unless the defaults of the parser name another one.
    """
    parser = commands.add_parser(
        name,
        help=purpose,
        description=f"{purpose}. {details}" if details else purpose,
        formatter_class=_HelpFormatter,
        parents=[CONFIG_OPTION],
    )
    parser.epilog = "\n  ".join([_EXAMPLES_HEAD, *examples])
    parser.exit_codes = exit_codes
    parser.set_defaults(module=parser.prog.split()[1].replace("-", "_"), wrong_usage=parser.error)
    return parser
