"""The commands that are about single messages: their arguments."""

from __future__ import annotations

from nbstream.cli import arguments
from nbstream.cli.parser.command_parser import CommandParser, Commands, add_command

_LEARN_USAGE = "[PATH ...] [--id ID ...]"  # with nargs="+" argparse would show that a path must be there


def add_commands(commands: Commands) -> None:
    """Add them in the order of the help."""
    _add_check(commands)
    _add_explain(commands)
    _add_learn(commands)
    _add_quarantine(commands)


def _add_check(commands: Commands) -> None:
    check = add_command(
        commands,
        "check",
        "score messages; exit 1 when one is spam",
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


def _add_explain(commands: Commands) -> None:
    explain = add_command(
        commands,
        "explain",
        "why a message was, or would be, called what it is called",
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


def _add_learn(commands: Commands) -> None:
    learn = add_command(
        commands,
        "learn",
        "learn messages as spam or as ham",
        usage=f"spam|ham {_LEARN_USAGE} [--imap URL ...]",
        details="A message that was learned with the other label is relearned; one that was learned with the same "
        "label changes nothing. With --insist such a message gets more weight, up to that of three messages, "
        "if its verdict still contradicts the label.",
    )
    learn.add_argument("label", choices=("spam", "ham"), help="what the messages are: spam or ham")
    learn.add_argument(
        "--insist",
        action="store_true",
        help="a message that has the label, and still the other verdict, gets more weight",
    )
    learn.add_argument(
        "--imap",
        dest="folders",
        action="append",
        type=arguments.imap_folder,
        default=[],
        metavar="URL",
        help="an IMAP folder, from the last message on that was learned before: imaps://USER@HOST/FOLDER with TLS "
        "from the beginning, imap:// with STARTTLS; may be given again",
    )
    learn.add_argument("--all", action="store_true", help="of --imap, all messages, also what was learned before")
    learn.add_argument(
        "--password-file",
        type=arguments.file_path,
        metavar="FILE",
        help="holds the password of the IMAP accounts; without it the terminal is asked",
    )
    learn.add_argument(
        "--ca-file",
        type=arguments.file_path,
        metavar="FILE",
        help="certificates (PEM) that are trusted for IMAP, instead of the system's",
    )
    learn.set_defaults(module="learn", wrong_usage=learn.error)
    unlearn = add_command(
        commands,
        "unlearn",
        "take back what messages were learned as",
        usage=_LEARN_USAGE,
        details="Exactly what was added is subtracted.",
    )
    unlearn.set_defaults(module="learn", label=None, insist=False, folders=[], wrong_usage=unlearn.error)
    for parser in (learn, unlearn):
        paths = parser.add_argument(
            "paths",
            nargs="+",
            type=arguments.nonempty_path,
            default=[],
            metavar="PATH",
            help="message, mbox, folder, Maildir, or - for standard input; none is needed with --id",
        )
        parser.add_argument(
            "--for",
            dest="person",
            type=arguments.person,
            metavar="NAME",
            help="whose word it is: history and undo --actor know it as 'user YOU for NAME'",
        )
        paths.required = False  # an --id will do; with nargs="*" argparse takes none where an option comes first
        parser.add_argument(
            "--id",
            dest="ids",
            nargs="+",
            type=arguments.message_id,
            default=[],
            metavar="ID",
            help="messages checked not long ago, by the id in their X-Nbstream field",
        )


def _add_quarantine(commands: Commands) -> None:
    quarantine = add_command(commands, "quarantine", "see what waits in the quarantine, and release it")
    actions = quarantine.add_subparsers(dest="action", required=True, metavar="ACTION", parser_class=CommandParser)
    listing = add_command(actions, "list", "what is there, oldest first")
    listing.add_argument("--json", action="store_true", help="one JSON object a line")
    show = add_command(actions, "show", "one message, its envelope and its text")
    show.add_argument(
        "id", type=arguments.message_id_prefix, metavar="ID", help="the id of a message, or how it begins"
    )
    release = add_command(actions, "release", "deliver messages, and learn them as ham")
    release.add_argument(
        "ids",
        nargs="+",
        type=arguments.message_id_prefix,
        metavar="ID",
        help="the id of a message, or how it begins",
    )
    release.add_argument(
        "--again", action="store_true", help="also what an interrupted release may have delivered already"
    )
    quarantine.set_defaults(module="quarantine")
