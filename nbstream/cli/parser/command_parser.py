"""What the parsers of all commands share: ``-c``, the form of the help, and how wrong words are refused."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from nbstream.cli import arguments
from nbstream.cli.exit_codes import EX_USAGE
from nbstream.cli.terminal import print_note, printable

if TYPE_CHECKING:
    from collections.abc import Sequence


# Two examples of each command, with which its ``--help``, the reference and the manual page end.

EXAMPLES = {
    "serve": ("nbstream serve --hints", "nbstream serve -c /etc/nbstream/nbstream.yaml"),
    "reload": ("nbstream reload", "nbstream reload --json"),
    "ui": ("nbstream ui", "nbstream ui --read-only -c /etc/nbstream/nbstream.yaml"),
    "doctor": ("nbstream doctor", "nbstream doctor --quiet --canary ann@example.org"),
    "config": ("nbstream config check", "nbstream config check /etc/nbstream/nbstream.yaml"),
    "config check": ("nbstream config check", "nbstream config check /etc/nbstream/nbstream.yaml"),
    "check": ("nbstream check message.eml", "nbstream check --json ~/Maildir/new"),
    "explain": (
        "nbstream explain edchtru3oofnfvfqwqz7j2fq",
        "nbstream explain --all --json message.eml",
    ),
    "learn": (
        "nbstream learn spam ~/Maildir/.Junk",
        "nbstream learn ham --imap imaps://ann@mail.example.org/Archive",
    ),
    "unlearn": ("nbstream unlearn message.eml", "nbstream unlearn --id edchtru3oofnfvfqwqz7j2fq"),
    "quarantine": ("nbstream quarantine list", "nbstream quarantine release edch"),
    "quarantine list": ("nbstream quarantine list", "nbstream quarantine list --json"),
    "quarantine show": (
        "nbstream quarantine show edchtru3oofnfvfqwqz7j2fq",
        "nbstream quarantine show edch",
    ),
    "quarantine release": (
        "nbstream quarantine release edchtru3oofnfvfqwqz7j2fq",
        "nbstream quarantine release --again edch",
    ),
    "status": ("nbstream status", "nbstream status --json"),
    "top-tokens": ("nbstream top-tokens", "nbstream top-tokens --class ham -k 50"),
    "history": (
        "nbstream history --since 2h",
        "nbstream history --since 2026-01-31T12:00+01:00 --actor 192.0.2.7 --json",
    ),
    "undo": (
        "nbstream undo --since 2h --actor 192.0.2.7",
        "nbstream undo --id edchtru3oofnfvfqwqz7j2fq --yes",
    ),
    "forget-auto": ("nbstream forget-auto", "nbstream forget-auto --yes"),
    "export": (
        "nbstream export model.gz",
        "nbstream export - | ssh mx2.example.org nbstream import -",
    ),
    "import": ("nbstream import model.gz", "nbstream import --merge model.gz"),
    "migrate": ("nbstream migrate", "nbstream migrate --back"),
    "evaluate": (
        "nbstream evaluate index.tsv --json-file result.json --scores scores.tsv",
        "nbstream evaluate --spam ~/Maildir/.Junk --ham ~/Maildir --regime errors --json",
    ),
    "tune": ("nbstream tune", "nbstream tune --with other.yaml --plot tune.svg"),
    "bench": ("nbstream bench", "nbstream bench --mail ~/Maildir --json"),
    "replay": ("nbstream replay index.tsv", "nbstream replay index.tsv --limit 3000 --skip 1000 --json"),
}
"""By the name of the command, without the program's."""


CONFIG_HELP = (
    "configuration (default: the first of ./nbstream.yaml, ~/.config/nbstream/nbstream.yaml and "
    "/etc/nbstream/nbstream.yaml)"
)


class CommandParser(argparse.ArgumentParser):
    """argparse with the exit code of sysexits.h for wrong usage (2 stays free of meaning), and whole options only.

    A beginning of an option, such as ``--y`` for ``--yes``, is refused: in the next version it could mean
    another one.
    """

    json_hint = ""
    """What is added where ``--json`` is given a value, which it took in an older version."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **{**options, "allow_abbrev": False})

    def error(self, message: str) -> NoReturn:
        """Print the usage and what is wrong on standard error, and exit with 64."""
        hint = f"; {self.json_hint}" if self.json_hint and message.startswith("argument --json:") else ""
        print_note(f"{self.format_usage()}{self.prog}: {printable(message)}{hint}")
        self.exit(EX_USAGE)

    def parse_known_args(  # type: ignore[override]  # what the two overloads of the stub come to
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Refuse unknown words here: argparse leaves them to the outermost parser, with the usage of that one."""
        options, unknown = super().parse_known_args(args, namespace)
        if unknown:
            hint = f"; {self.json_hint}" if self.json_hint and options.json else ""
            self.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
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
    usage: str | None = None,
    details: str = "",
) -> CommandParser:
    """Add a command that takes ``-c`` and whose help ends with its examples.

    Its purpose stands in the list of all commands and in its own help, the details only there.
    """
    parser = commands.add_parser(
        name,
        help=purpose,
        description=f"{purpose}. {details}" if details else purpose,
        usage=f"%(prog)s [-h] [-c FILE] {usage}" if usage else None,
        formatter_class=_HelpFormatter,
        parents=[CONFIG_OPTION],
    )
    examples = EXAMPLES[parser.prog.partition(" ")[2]]
    parser.epilog = "\n  ".join([_EXAMPLES_HEAD, *examples])
    return parser
