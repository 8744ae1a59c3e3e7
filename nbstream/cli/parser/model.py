"""The commands that look at a model, change it as a whole, or move it: their arguments."""

from __future__ import annotations

from nbstream.cli import arguments
from nbstream.cli.parser.command_parser import CommandParser, Commands, add_command


def add_commands(commands: Commands) -> None:
    """Add them in the order of the help."""
    _add_status(commands)
    _add_top_tokens(commands)
    _add_history(commands)
    _add_undo(commands)
    _add_forget_auto(commands)
    _add_transfer(commands)
    _add_migrate(commands)


def _add_status(commands: Commands) -> None:
    status = add_command(
        commands,
        "status",
        "what the model knows, and what it still needs",
        details="It prints the thresholds too, what is promised of budgets, and whether the policy in the file "
        "is the one in force.",
    )
    status.add_argument("--json", action="store_true", help="one JSON object")
    status.set_defaults(module="status")


def _add_top_tokens(commands: Commands) -> None:
    top = add_command(
        commands,
        "top-tokens",
        "the tokens that speak loudest for a class",
        details="For each token it prints the log-ratio, which is positive where the token speaks for spam and "
        "negative where it speaks for ham, and the counts in ham and in spam, by the weight of the messages; with "
        "a half-life, what is left of them now.",
    )
    top.add_argument(
        "--class", dest="label", choices=("spam", "ham"), default="spam", help="for which (default: spam)"
    )
    top.add_argument("-k", type=arguments.whole_number, default=20, metavar="N", help="how many (default: 20)")
    top.add_argument("--json", action="store_true", help="one JSON object a line")
    top.set_defaults(module="top_tokens")


def _add_history(commands: Commands) -> None:
    history = add_command(commands, "history", "who taught what, when, and what it did")
    _add_selection(history)
    history.add_argument("--limit", type=arguments.whole_number, metavar="N", help="only the last N changes")
    history.add_argument("--json", action="store_true", help="one JSON object a line")
    history.set_defaults(module="history")


def _add_undo(commands: Commands) -> None:
    undo = add_command(
        commands,
        "undo",
        "take back what was taught; without --yes say what that would be",
        details="It needs --since or --id.",
    )
    _add_selection(undo)
    undo.add_argument("--yes", action="store_true", help="do it")
    undo.add_argument("--json", action="store_true", help="one JSON object a line, the last one the summary")
    undo.set_defaults(module="undo", wrong_usage=undo.error)


def _add_forget_auto(commands: Commands) -> None:
    forget = add_command(
        commands, "forget-auto", "drop all that was learned without people; without --yes say what that is"
    )
    forget.add_argument("--yes", action="store_true", help="do it")
    forget.add_argument("--json", action="store_true", help="one JSON object")
    forget.set_defaults(module="forget_auto")


def _add_selection(parser: CommandParser) -> None:
    """Which changes of the history are meant."""
    parser.add_argument(
        "--since",
        type=arguments.timestamp,
        metavar="TIME",
        help="from then on: 30m, 2h, 3d ago, or 2026-01-31T12:00+01:00 (without an offset local time)",
    )
    parser.add_argument("--until", type=arguments.timestamp, metavar="TIME", help="only what was before then")
    parser.add_argument("--source", metavar="S", help="only what came this way: smtp, http, page, cli and so on")
    parser.add_argument("--actor", metavar="A", help="only what this one taught: a peer's address, a user")
    parser.add_argument("--label", choices=("spam", "ham"), help="only what was learned, or unlearned, as this")
    parser.add_argument("--id", type=arguments.message_id, metavar="ID", help="only this message")


def _add_transfer(commands: Commands) -> None:
    export = add_command(
        commands,
        "export",
        "write the whole model to a file",
        details="The file holds the counts and the ledger, and only its owner can read it.",
    )
    export.add_argument(
        "file",
        type=arguments.nonempty_path,
        metavar="FILE",
        help="replaced once the export is whole; - is standard output",
    )
    export.set_defaults(module="export")
    import_ = add_command(
        commands,
        "import",
        "read a model that was exported",
        details="The model must be empty, unless --merge is given.",
    )
    import_.add_argument(
        "file", type=arguments.nonempty_path, metavar="FILE", help="what export wrote; - is standard input"
    )
    import_.add_argument(
        "--merge", action="store_true", help="add to a model that is not empty; it keeps its own word on a message"
    )
    import_.set_defaults(module="import_")


def _add_migrate(commands: Commands) -> None:
    migrate = add_command(
        commands, "migrate", "keep a model that an older version has learned, in the forms of this one"
    )
    migrate.add_argument(
        "--back", action="store_true", help="make it a model of the version before again, to go back to that one"
    )
    migrate.add_argument("--force", action="store_true", help="do not look for daemons that still run")
    migrate.add_argument("--json", action="store_true", help="one JSON object")
    migrate.set_defaults(module="migrate")
