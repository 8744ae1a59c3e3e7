"""The commands that run the daemon or speak of its configuration: their arguments."""

from __future__ import annotations

from nbstream.cli import arguments
from nbstream.cli.parser.command_parser import CommandParser, Commands, add_command


def add_commands(commands: Commands) -> None:
    """Add them in the order of the help."""
    _add_serve(commands)
    _add_reload(commands)
    _add_ui(commands)
    _add_doctor(commands)
    _add_config(commands)


def _add_serve(commands: Commands) -> None:
    serve = add_command(
        commands,
        "serve",
        "run the daemon",
        details="It runs until SIGTERM, and then lets the work in hand finish.",
    )
    serve.add_argument(
        "--hints",
        action="store_true",
        help="print commands to try and a link to the page, once mail is accepted",
    )
    serve.set_defaults(module="serve")


def _add_reload(commands: Commands) -> None:
    reload = add_command(
        commands,
        "reload",
        "have the daemon apply its changed configuration, without a restart",
        details="The command waits for the daemon and prints its answer.",
    )
    reload.add_argument("--json", action="store_true", help="the daemon's answer as one JSON object")
    reload.set_defaults(module="reload")


def _add_ui(commands: Commands) -> None:
    ui = add_command(
        commands,
        "ui",
        "print a one-time link to the page of the running daemon",
        details="The link can be used once, within ten minutes, and logs a browser in for twelve hours. Run it as "
        "the daemon's user.",
    )
    ui.add_argument("--read-only", action="store_true", help="whoever uses the link can change nothing")
    ui.set_defaults(module="ui")


def _add_doctor(commands: Commands) -> None:
    doctor = add_command(
        commands,
        "doctor",
        "examine the site, and say what is wrong and what to do about it",
        details="It asks the daemon, its listeners, Redis, the next hop, Postfix and Dovecot, and changes "
        "nothing. Run it as the daemon's user.",
    )
    doctor.add_argument("--json", action="store_true", help="the findings as one JSON object")
    doctor.add_argument("--quiet", action="store_true", help="print warnings and problems alone")
    doctor.add_argument(
        "--postfix",
        type=arguments.file_path,
        metavar="FOLDER",
        help="the folder of Postfix's main.cf (default: that of postconf)",
    )
    doctor.add_argument(
        "--dovecot",
        type=arguments.file_path,
        metavar="FILE",
        help="Dovecot's dovecot.conf (default: that of doveconf)",
    )
    doctor.add_argument(
        "--canary",
        type=arguments.mail_address,
        metavar="ADDRESS",
        help="send a message to ADDRESS on the way of mail; it is checked, marked as spam and never learned",
    )
    doctor.set_defaults(module="doctor")


def _add_config(commands: Commands) -> None:
    config = add_command(commands, "config", "look at a configuration")
    actions = config.add_subparsers(dest="action", required=True, metavar="ACTION", parser_class=CommandParser)
    check = add_command(actions, "check", "say what is wrong with a file, without starting anything")
    check.add_argument(
        "file", nargs="?", type=arguments.file_path, metavar="FILE", help="default: the one that is read"
    )
    check.set_defaults(module="config_check", wrong_usage=check.error)
