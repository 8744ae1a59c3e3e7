"""The words of the command line: every command with its arguments, its examples and its exit codes.

Rules: nothing heavy is imported here, so that ``--help`` answers at once. The reference of the commands, the
manual page nbstream(1) and the shell completions are made from this parser.
"""

from __future__ import annotations

from nbstream import __version__
from nbstream.cli import arguments
from nbstream.cli.parser import daemon, evaluation, messages, model
from nbstream.cli.parser.command_parser import CONFIG_HELP, CommandParser
from nbstream.cli.parser.exit_code_meanings import COMMAND_EXIT_CODES, EXIT_CODES

__all__ = ["COMMAND_EXIT_CODES", "CONFIG_HELP", "EXIT_CODES", "build_parser"]


def build_parser() -> CommandParser:
    """Return the parser of the whole command line."""
    parser = CommandParser(
        prog="nbstream",
        usage="%(prog)s [-h] [--version] [-c FILE] COMMAND ...",
        description="A spam filter daemon with an online naive Bayes.",
    )
    parser.add_argument("--version", action="version", version=f"nbstream {__version__}")
    parser.add_argument("-c", "--config", type=arguments.file_path, metavar="FILE", help=CONFIG_HELP)
    commands = parser.add_subparsers(
        dest="command", required=True, metavar="COMMAND", parser_class=CommandParser, prog="nbstream"
    )
    for subject in (daemon, messages, model, evaluation):
        subject.add_commands(commands)
    return parser
