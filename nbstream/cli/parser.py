"""The words of the command line: every command with its arguments and exit codes, and what is said of wrong ones.

The reference of the commands, the manual page nbstream(1) and the shell completions are made of what stands here.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, NoReturn, TypeAlias

from nbstream import __version__
from nbstream.cli import arguments
from nbstream.cli.terminal import print_note, printable

if TYPE_CHECKING:
    from collections.abc import Sequence

EX_USAGE = 64

EXIT_CODES = {
    0: "The command did what it was asked to do.",
    64: "The command line is wrong.",
    65: "Nothing can be learned from a message.",
    66: "An input cannot be read, is damaged, or an id is unknown. The other inputs are handled all the same.",
    69: "The daemon does not run, or the next hop refuses.",
    70: "There is a fault in nbstream. Please report the traceback.",
    74: "The output cannot be written, or nobody reads it.",
    75: "Try again later: Redis is away, or an address or the state folder is in use.",
    78: "The configuration, a password or a stored model cannot be used.",
    130: "The command was interrupted by Ctrl-C. A second Ctrl-C does not wait for what is under way.",
}
"""The exit codes of every command and their meaning, most of them those of sysexits.h."""

COMMAND_EXIT_CODES = {
    "serve": {0: "The daemon was stopped by SIGTERM or SIGINT."},
    "check": {0: "No message is spam.", 1: "At least one message is spam."},
    "learn": {0: "All messages are learned, or were learned before."},
    "unlearn": {0: "None of the messages is learned any more, or ever was."},
    "undo": {0: "The changes are taken back, as far as they can be."},
    "import": {66: "The file is damaged.", 78: "The file is of another kind, or the model is not empty."},
    "quarantine release": {
        69: "The next hop refuses a message.",
        75: "A message stays in the quarantine for now.",
    },
    "config check": {
        0: "The configuration can be used.",
        78: "The configuration has the problems that are printed.",
    },
    "reload": {
        0: "The daemon applied the configuration.",
        69: "No daemon runs.",
        75: "The daemon did not answer.",
        78: "The configuration was refused, and nothing has changed.",
    },
    "evaluate": {78: "A picture needs matplotlib, which is not installed."},
    "tune": {78: "A picture needs matplotlib, which is not installed."},
}
"""What the exit codes mean for one command where it says more than ``EXIT_CODES``."""

CONFIG_HELP = (
    "configuration (default: the first of ./nbstream.yaml, ~/.config/nbstream/nbstream.yaml and "
    "/etc/nbstream/nbstream.yaml)"
)

_LEARN_USAGE = "[PATH ...] [--id ID ...]"  # with nargs="+" argparse would show that a path must be there


class _Parser(argparse.ArgumentParser):
    """argparse with the exit code of sysexits.h for wrong usage; 2 stays free of meaning."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and how it is used, and exit."""
        print_note(f"{self.format_usage()}{self.prog}: {printable(message)}")
        self.exit(EX_USAGE)

    def parse_known_args(  # type: ignore[override]  # what the two overloads of the stub come to
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Refuse what is not known here: argparse leaves it to the outermost parser, with the usage of that."""
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return found, unknown


def build_parser() -> _Parser:
    """The parser of the whole command line."""
    parser = _Parser(
        prog="nbstream",
        usage="%(prog)s [-h] [--version] COMMAND [-c FILE] ...",
        description="A spam filter daemon with an online naive Bayes.",
    )
    parser.add_argument("--version", action="version", version=f"nbstream {__version__}")
    commands = parser.add_subparsers(
        dest="command", required=True, metavar="COMMAND", parser_class=_Parser, prog="nbstream"
    )
    common = _Parser(add_help=False)
    common.add_argument(
        "-c",
        "--config",
        type=arguments.file_path,
        metavar="FILE",
        help=CONFIG_HELP,
    )
    _add_serve(commands, common)
    _add_check(commands, common)
    _add_explain(commands, common)
    _add_learn(commands, common)
    _add_status(commands, common)
    _add_top_tokens(commands, common)
    _add_transfer(commands, common)
    _add_migrate(commands, common)
    _add_history(commands, common)
    _add_undo(commands, common)
    _add_forget_auto(commands, common)
    _add_quarantine(commands, common)
    _add_config(commands)
    _add_reload(commands, common)
    _add_replay(commands, common)
    _add_evaluate(commands, common)
    _add_tune(commands, common)
    return parser


_Commands: TypeAlias = "argparse._SubParsersAction[_Parser]"  # argparse has no public name for it


def _command(
    commands: _Commands, name: str, purpose: str, *common: _Parser, usage: str | None = None, details: str = ""
) -> _Parser:
    """A command: its purpose stands in the list of all commands and in its own help, the details only there."""
    if usage:
        usage = f"%(prog)s [-h] [-c FILE] {usage}"
    description = f"{purpose}. {details}" if details else purpose
    return commands.add_parser(name, parents=common, help=purpose, description=description, usage=usage)


def _add_serve(commands: _Commands, common: _Parser) -> None:
    serve = _command(
        commands,
        "serve",
        "run the daemon",
        common,
        details="It runs until SIGTERM, and then lets the work in hand finish.",
    )
    serve.add_argument("--hints", action="store_true", help="print three commands to try, once mail is accepted")
    serve.set_defaults(module="serve")


def _add_reload(commands: _Commands, common: _Parser) -> None:
    reload = _command(
        commands,
        "reload",
        "have the daemon apply its changed configuration, without a restart",
        common,
        details="The command waits for the daemon and prints its answer.",
    )
    reload.add_argument("--json", action="store_true", help="the daemon's answer as one JSON object")
    reload.set_defaults(module="reload")


def _add_check(commands: _Commands, common: _Parser) -> None:
    check = _command(
        commands,
        "check",
        "score messages; exit 1 when one is spam",
        common,
        details="The messages are not remembered, and therefore cannot be taught by their ids alone.",
    )
    check.add_argument(
        "paths",
        nargs="+",
        type=arguments.nonempty_path,
        metavar="PATH",
        help="message, mbox, folder, Maildir, or - for standard input",
    )
    check.add_argument("--json", action="store_true", help="one JSON object a line, with the clues")
    check.set_defaults(module="check")


def _add_explain(commands: _Commands, common: _Parser) -> None:
    explain = _command(
        commands,
        "explain",
        "why a message was, or would be, called what it is called",
        common,
        details="For an id it prints the reasons of the last check; for a message the reasons that hold now.",
    )
    explain.add_argument(
        "subjects",
        nargs="+",
        type=arguments.nonempty_path,
        metavar="ID|PATH",
        help="the id in an X-Nbstream field, or a message, mbox, folder, Maildir, or - for standard input",
    )
    shown = explain.add_mutually_exclusive_group()
    shown.add_argument(
        "-n",
        dest="clues",
        type=arguments.whole_number,
        default=20,
        metavar="N",
        help="how many clues (default: 20)",
    )
    shown.add_argument("--all", action="store_const", dest="clues", const=None, help="all clues")
    explain.add_argument("--now", action="store_true", help="of an ID, what would be thought of it now")
    explain.add_argument("--json", action="store_true", help="one JSON object a line, with all clues")
    explain.set_defaults(module="explain")


def _add_learn(commands: _Commands, common: _Parser) -> None:
    learn = _command(
        commands,
        "learn",
        "learn messages as spam or as ham",
        common,
        usage=f"spam|ham {_LEARN_USAGE}",
        details="A message that was learned with the other label is relearned; one that was learned with the same "
        "label changes nothing.",
    )
    learn.add_argument("label", choices=("spam", "ham"), help="what the messages are: spam or ham")
    learn.set_defaults(module="learn", wrong_usage=learn.error)
    unlearn = _command(
        commands,
        "unlearn",
        "take back what messages were learned as",
        common,
        usage=_LEARN_USAGE,
        details="Exactly what was added is subtracted.",
    )
    unlearn.set_defaults(module="learn", label=None, wrong_usage=unlearn.error)
    for each in (learn, unlearn):
        paths = each.add_argument(
            "paths",
            nargs="+",
            type=arguments.nonempty_path,
            default=[],
            metavar="PATH",
            help="message, mbox, folder, Maildir, or - for standard input; none is needed with --id",
        )
        paths.required = False  # an --id will do; with nargs="*" argparse takes none where an option comes first
        each.add_argument(
            "--id",
            dest="ids",
            nargs="+",
            type=arguments.message_id,
            default=[],
            metavar="ID",
            help="messages checked not long ago, by the id in their X-Nbstream field",
        )


def _add_status(commands: _Commands, common: _Parser) -> None:
    status = _command(
        commands,
        "status",
        "what the model knows, and what it still needs",
        common,
        details="It prints the thresholds too, what is promised of budgets, and whether the policy in the file "
        "is the one in force.",
    )
    status.add_argument("--json", action="store_true", help="one JSON object")
    status.set_defaults(module="status")


def _add_top_tokens(commands: _Commands, common: _Parser) -> None:
    top = _command(
        commands,
        "top-tokens",
        "the tokens that speak loudest for a class",
        common,
        details="For each token it prints the log-ratio and the counts in ham and in spam, by the weight of the "
        "messages; with a half-life, what is left of them now.",
    )
    top.add_argument(
        "--class", dest="label", choices=("spam", "ham"), default="spam", help="for which (default: spam)"
    )
    top.add_argument("-k", type=arguments.whole_number, default=20, metavar="N", help="how many (default: 20)")
    top.add_argument("--json", action="store_true", help="one JSON object a line")
    top.set_defaults(module="top_tokens")


def _add_transfer(commands: _Commands, common: _Parser) -> None:
    export = _command(
        commands,
        "export",
        "write the whole model to a file",
        common,
        details="The file holds the counts and the ledger, and only its owner can read it.",
    )
    export.add_argument(
        "file",
        type=arguments.nonempty_path,
        metavar="FILE",
        help="replaced once the export is whole; - is standard output",
    )
    export.set_defaults(module="export")
    import_ = _command(
        commands,
        "import",
        "read a model that was exported",
        common,
        details="The model must be empty, unless --merge is given.",
    )
    import_.add_argument(
        "file", type=arguments.nonempty_path, metavar="FILE", help="what export wrote; - is standard input"
    )
    import_.add_argument(
        "--merge", action="store_true", help="add to a model that is not empty; it keeps its own word on a message"
    )
    import_.set_defaults(module="import_")


def _add_migrate(commands: _Commands, common: _Parser) -> None:
    migrate = _command(commands, "migrate", "keep a model that an older version has learned", common)
    migrate.add_argument(
        "--back", action="store_true", help="make it a model of the older version again, to go back to that one"
    )
    migrate.add_argument("--force", action="store_true", help="do not look for daemons that still run")
    migrate.add_argument("--json", action="store_true", help="one JSON object")
    migrate.set_defaults(module="migrate")


def _add_history(commands: _Commands, common: _Parser) -> None:
    history = _command(commands, "history", "who taught what, when, and what it did", common)
    _add_selection(history)
    history.add_argument("--limit", type=arguments.whole_number, metavar="N", help="only the last N changes")
    history.add_argument("--json", action="store_true", help="one JSON object a line")
    history.set_defaults(module="history")


def _add_undo(commands: _Commands, common: _Parser) -> None:
    undo = _command(commands, "undo", "take back what was taught; without --yes say what that would be", common)
    _add_selection(undo)
    undo.add_argument("--until", type=arguments.timestamp, metavar="TIME", help="only what was before then")
    undo.add_argument(
        "--id", type=arguments.message_id, metavar="ID", help="only this message; --since is not needed then"
    )
    undo.add_argument("--yes", action="store_true", help="do it")
    undo.add_argument("--json", action="store_true", help="one JSON object a line, the last one the summary")
    undo.set_defaults(module="undo", wrong_usage=undo.error)


def _add_forget_auto(commands: _Commands, common: _Parser) -> None:
    forget = _command(
        commands, "forget-auto", "drop all that was learned without people; without --yes say what that is", common
    )
    forget.add_argument("--yes", action="store_true", help="do it")
    forget.add_argument("--json", action="store_true", help="one JSON object")
    forget.set_defaults(module="forget_auto")


def _add_selection(parser: _Parser) -> None:
    """Which changes of the history are meant."""
    parser.add_argument(
        "--since",
        type=arguments.timestamp,
        metavar="TIME",
        help="from then on: 30m, 2h, 3d ago, or 2026-01-31T12:00",
    )
    parser.add_argument("--actor", metavar="A", help="only what this one taught: a peer's address, a user")
    parser.add_argument("--label", choices=("spam", "ham"), help="only what was learned, or unlearned, as this")


def _add_quarantine(commands: _Commands, common: _Parser) -> None:
    held = _command(commands, "quarantine", "see what waits in the quarantine, and release it")
    actions = held.add_subparsers(dest="action", required=True, metavar="ACTION", parser_class=_Parser)
    listing = _command(actions, "list", "what is there, oldest first", common)
    listing.add_argument("--json", action="store_true", help="one JSON object a line")
    show = _command(actions, "show", "one message, its envelope and its text", common)
    show.add_argument(
        "id", type=arguments.message_id_prefix, metavar="ID", help="the id of its verdict, or how that begins"
    )
    release = _command(actions, "release", "deliver messages, and learn them as ham", common)
    release.add_argument(
        "ids", nargs="+", type=arguments.message_id_prefix, metavar="ID", help="an id, or how it begins"
    )
    release.add_argument(
        "--again", action="store_true", help="also what an interrupted release may have delivered already"
    )
    held.set_defaults(module="quarantine")


def _add_config(commands: _Commands) -> None:
    config = _command(commands, "config", "look at a configuration")
    actions = config.add_subparsers(dest="action", required=True, metavar="ACTION", parser_class=_Parser)
    check = _command(actions, "check", "say what is wrong with a file, without starting anything")
    one = check.add_mutually_exclusive_group()
    one.add_argument(
        "file", nargs="?", type=arguments.file_path, metavar="FILE", help="default: the one that is read"
    )
    one.add_argument("-c", "--config", type=arguments.file_path, metavar="FILE", help="the same")
    check.set_defaults(module="config_check")


def _add_replay(commands: _Commands, common: _Parser) -> None:
    replay = _command(
        commands,
        "replay",
        "send a labelled corpus through a running daemon: its next hop gets the mail, its model learns",
        common,
        details="It prints how good the verdicts were. Give it a daemon of its own.",
    )
    replay.add_argument(
        "index", type=arguments.file_path, metavar="INDEX", help="lines of label<TAB>path, in stream order"
    )
    replay.add_argument(
        "--smtp",
        type=arguments.server_address,
        metavar="HOST:PORT",
        help="the daemon's SMTP door (default: as configured)",
    )
    replay.add_argument(
        "--feedback",
        choices=("immediate", "errors", "unsure", "none"),
        default="immediate",
        help="which messages get their label told (default: immediate, which is each at once)",
    )
    replay.add_argument("--limit", type=arguments.whole_number, metavar="N", help="only the first N messages")
    replay.add_argument(
        "--skip", type=arguments.whole_number, default=0, metavar="N", help="leave the first N out of the measures"
    )
    replay.add_argument("--json", action="store_true", help="the result as one JSON object")
    replay.set_defaults(module="replay")


def _add_evaluate(commands: _Commands, common: _Parser) -> None:
    evaluate = _command(
        commands,
        "evaluate",
        "score a labelled stream, learning as it goes, and measure how good that was",
        common,
        details="The daemon and its model are left alone.",
    )
    evaluate.add_argument(
        "index",
        nargs="?",
        type=arguments.file_path,
        metavar="INDEX",
        help="lines of label<TAB>path, in stream order, or a .csv or .tsv of label and text",
    )
    for label in ("spam", "ham"):
        evaluate.add_argument(
            f"--{label}",
            nargs="+",
            type=arguments.nonempty_path,
            metavar="PATH",
            help=f"instead of INDEX: messages, mboxes, folders of {label}",
        )
    evaluate.add_argument(
        "--regime",
        type=arguments.regime_name,
        default="immediate",
        metavar="immediate|delayed:N|errors|unsure|none",
        help="which labels are learned, and when (default: each at once)",
    )
    evaluate.add_argument("--limit", type=arguments.whole_number, metavar="N", help="only the first N messages")
    evaluate.add_argument(
        "--skip", type=arguments.whole_number, default=0, metavar="N", help="leave the first N out of the measures"
    )
    evaluate.add_argument(
        "--label-noise",
        type=arguments.fraction,
        default=0.0,
        metavar="P",
        help="flip this share of the labels that are learned",
    )
    evaluate.add_argument(
        "--seed", type=arguments.whole_number, default=0, metavar="S", help="which labels are flipped"
    )
    evaluate.add_argument(
        "--json", type=arguments.nonempty_path, metavar="FILE|-", help="the measures as one JSON object"
    )
    evaluate.add_argument(
        "--scores", type=arguments.file_path, metavar="FILE", help="what each message got, as TSV"
    )
    evaluate.add_argument(
        "--plot", type=arguments.file_path, metavar="FILE.png", help="ROC, learning curve and histograms"
    )
    evaluate.add_argument("--redis", metavar="URL", help="count in a temporary model there instead of in memory")
    evaluate.set_defaults(module="evaluate", wrong_usage=evaluate.error)


def _add_tune(commands: _Commands, common: _Parser) -> None:
    tune = _command(
        commands,
        "tune",
        "what other thresholds would have done to the mail labelled last",
        common,
        details="With --with it says which verdicts another configuration would change.",
    )
    tune.add_argument(
        "--with",
        dest="other",
        type=arguments.file_path,
        metavar="FILE",
        help="compare the verdict section of this configuration",
    )
    tune.add_argument(
        "--plot",
        type=arguments.plot_file,
        metavar="FILE.svg|png|pdf",
        help="DET curve, costs, and errors by threshold",
    )
    tune.add_argument("--json", action="store_true", help="one JSON object")
    tune.set_defaults(module="tune")
