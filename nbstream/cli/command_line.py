"""The words of the command line: every command with its arguments, its examples and its exit codes.

Rules: nothing heavy is imported here, so that ``--help`` answers at once, and completion can be made without what
the commands need. A command's own module is imported when it runs. The reference of the commands, the manual page
nbstream(1) and the shell completions are made from this parser.
"""

from __future__ import annotations

import argparse
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from nbstream import __version__
from nbstream.cli import arguments
from nbstream.cli.exit_codes import EX_USAGE
from nbstream.terminal import print_note, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

CONFIG_HELP = (
    "configuration (default: the first of ./nbstream.yaml, ~/.config/nbstream/nbstream.yaml and "
    "/etc/nbstream/nbstream.yaml)"
)


def build_parser() -> CommandParser:
    """Return the parser of the whole command line."""
    parser = CommandParser(
        prog="nbstream",
        usage="%(prog)s [-h] [--version] [-c FILE] COMMAND ...",
        description="A spam filter daemon with an online naive Bayes.",
        formatter_class=_HelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"nbstream {__version__}")
    parser.add_argument("-c", "--config", type=arguments.file_path, metavar="FILE", help=CONFIG_HELP)
    commands = parser.add_subparsers(
        dest="command",
        required=True,
        metavar="COMMAND",
        help=argparse.SUPPRESS,  # the epilog lists them, by group
        parser_class=CommandParser,
        prog="nbstream",
    )
    groups = ("\n".join((f"{title}:", *(add(commands) for add in adds))) for title, adds in _COMMANDS.items())
    parser.epilog = parser.below = "\n\n".join(groups)
    return parser


class CommandParser(argparse.ArgumentParser):
    """argparse with the exit code of sysexits.h for wrong usage (2 stays free of meaning), and whole options only.

    A beginning of an option, such as ``--y`` for ``--yes``, is refused: in the next version it could mean
    another one.
    """

    exit_codes: Mapping[int, str] = MappingProxyType({})
    """What the exit codes mean for this command where it says more than ``EXIT_CODE_MEANINGS``."""

    below = ""
    """The commands below this one, each on a line: where one is missing or wrong, they are printed."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **{**options, "allow_abbrev": False})

    def error(self, message: str) -> NoReturn:
        """Print the usage, the commands below and what is wrong on standard error, and exit with 64."""
        below = f"\n{self.below}\n\n" if self.below else ""
        print_note(f"{self.format_usage()}{below}{self.prog}: {printable(message)}")
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
    """Wraps what a command does, and leaves lists, such as its examples, as they stand."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:  # argparse's own formatters override it too
        return text if "\n" in text else super()._fill_text(text, width, indent)


CONFIG_OPTION = CommandParser(add_help=False)
"""The parent of all commands: ``-c`` sets nothing where it is not given, since it may stand before the command."""
CONFIG_OPTION.add_argument(
    "-c", "--config", type=arguments.file_path, default=argparse.SUPPRESS, metavar="FILE", help=CONFIG_HELP
)

Commands: TypeAlias = "argparse._SubParsersAction[CommandParser]"  # argparse has no public name for it
AddCommand: TypeAlias = "Callable[[Commands], str]"
"""Adds a command, and returns its line in a list of commands."""
Add: TypeAlias = "Callable[[Any], object]"
"""Adds an argument, a group of them or commands to a parser or a group."""


# What the table below is written in.


def command(  # noqa: PLR0913 - the words of the table
    name: str,
    purpose: str,
    *words: Add,
    details: str = "",
    examples: tuple[str, str],
    exit_codes: Mapping[int, str] = MappingProxyType({}),
    usage: str | None = None,
    module: str = "",
    **defaults: object,
) -> AddCommand:
    """Return what adds a command with these arguments, which takes ``-c`` and whose help ends with its examples.

    Its purpose stands in the list of all commands and in its own help, the details only there. ``exit_codes`` are
    those that mean more, or something else, than for all commands. Its module in ``nbstream.cli.commands`` has its
    name, unless ``module`` names another one. ``defaults`` are options that it does not take.
    """

    def add(commands: Commands) -> str:
        parser = commands.add_parser(
            name,
            help=purpose,
            description=f"{purpose}. {details}" if details else purpose,
            formatter_class=_HelpFormatter,
            parents=[CONFIG_OPTION],
            usage=usage,
        )
        parser.epilog = "\n  ".join(["examples:", *examples])
        parser.exit_codes = exit_codes
        of_name = f"nbstream.cli.commands.{parser.prog.split()[1]}"
        parser.set_defaults(**defaults, module=module or of_name, wrong_usage=parser.error)
        _add_all(words, parser)
        return f"  {name:<12}{purpose}"

    return add


def actions(*commands: AddCommand) -> Add:
    """Return what adds commands below a command, one of which has to be given."""

    def add(parser: CommandParser) -> None:
        below = parser.add_subparsers(dest="action", required=True, metavar="ACTION", parser_class=CommandParser)
        parser.below = "\n".join(add_command(below) for add_command in commands)

    return add


def argument(*names: str, optional: bool = False, **options: Any) -> Add:
    """Return what adds an argument as argparse takes it.

    An ``optional`` one without dashes is shown as one that is needed: argparse itself has only ``nargs="*"`` for
    it, which takes none where an option comes first.
    """

    def add(parser: CommandParser) -> None:
        added = parser.add_argument(*names, **options)
        added.required = added.required and not optional

    return add


def one_of(*words: Add, required: bool = False) -> Add:
    """Return what adds arguments of which one at most may be given."""
    return lambda parser: _add_all(words, parser.add_mutually_exclusive_group(required=required))


def group(title: str, *words: Add) -> Add:
    """Return what adds arguments below a title of their own."""
    return lambda parser: _add_all(words, parser.add_argument_group(title))


def _add_all(words: Sequence[Add], parser: object) -> None:
    for add in words:
        add(parser)


def _json(meaning: str) -> Add:
    return argument("--json", action="store_true", help=meaning)


_USER = argument(
    "--user",
    type=arguments.mail_address,
    metavar="ADDRESS",
    help="use the own model of this user, if they have one",
)

_SELECTION = (
    argument(
        "--since",
        type=arguments.timestamp,
        metavar="TIME",
        help="from then on: 30m, 2h, 3d ago, or 2026-01-31T12:00+01:00 (without an offset local time)",
    ),
    argument("--until", type=arguments.timestamp, metavar="TIME", help="only changes before that time"),
    argument("--source", metavar="S", help="only changes from this source: smtp, http, page, cli and so on"),
    argument("--actor", metavar="A", help="only changes by this actor: a client's address or a user"),
    argument(
        "--label",
        choices=arguments.CLASS_NAMES,
        metavar="CLASS",
        help="only changes with this label: spam, ham (of any kind), or a kind",
    ),
    argument("--id", type=arguments.message_id, metavar="ID", help="only this message"),
)
"""Which changes of the history are meant."""

_TAUGHT = (
    argument(
        "paths",
        optional=True,
        nargs="+",
        type=arguments.nonempty_path,
        default=[],
        metavar="PATH",
        help="message, mbox, folder, Maildir, or - for standard input; none is needed with --id",
    ),
    argument(
        "--for",
        dest="person",
        type=arguments.person,
        metavar="NAME",
        help="learn in the name of this user; recorded in the history as 'user YOU for NAME'",
    ),
    _USER,
    argument(
        "--id",
        dest="ids",
        action="extend",
        nargs="+",
        type=arguments.message_id,
        default=[],
        metavar="ID",
        help="recently checked messages, by the id in their X-Nbstream field",
    ),
)
"""Which messages are learned or unlearned, and for whom."""

_DAEMON = (
    command(
        "serve",
        "run the daemon",
        argument(
            "--hints",
            action="store_true",
            help="when mail is accepted, print commands to try and a link to the web interface",
        ),
        details="It runs until SIGTERM, and then finishes the work in progress.",
        examples=("nbstream serve --hints", "nbstream serve -c /etc/nbstream/nbstream.yaml"),
        exit_codes={0: "The daemon was stopped by SIGTERM or SIGINT."},
    ),
    command(
        "demo",
        "try the filter and its web interface with made-up mail",
        argument(
            "--messages",
            type=arguments.whole_number,
            metavar="N",
            help="end after N messages (default: at Ctrl-C)",
        ),
        argument(
            "--pause", type=float, default=1.5, metavar="SECONDS", help="pause between two messages (default: 1.5)"
        ),
        argument("--seed", type=int, default=1, metavar="N", help="seed of the made-up mail (default: 1)"),
        details="A daemon with a private Redis runs in a temporary folder until Ctrl-C, and leaves nothing "
        "behind.",
        module="nbstream.demo.command",
        examples=("nbstream demo", "nbstream demo --messages 100 --pause 0"),
        exit_codes={0: "It was ended by Ctrl-C, or after --messages."},
    ),
    command(
        "reload",
        "apply a changed configuration without a restart",
        _json("the daemon's answer as one JSON object"),
        details="The command waits for the daemon and prints its answer.",
        examples=("nbstream reload", "nbstream reload --json"),
        exit_codes={
            0: "The daemon applied the configuration.",
            69: "No daemon runs.",
            75: "The daemon did not answer.",
            78: "The configuration was refused, and nothing has changed.",
        },
    ),
    command(
        "ui",
        "print a one-time link to the web interface",
        argument("--read-only", action="store_true", help="a link that can change nothing"),
        details="The link works once, within ten minutes, and logs a browser in for twelve hours. Run this as "
        "the daemon's user.",
        examples=("nbstream ui", "nbstream ui --read-only -c /etc/nbstream/nbstream.yaml"),
        exit_codes={
            0: "The link is printed.",
            69: "No daemon runs.",
            75: "Redis is away.",
            78: "The HTTP listener is off, or the configuration cannot be used.",
        },
    ),
    command(
        "doctor",
        "examine the installation and suggest remedies",
        _json("the findings as one JSON object"),
        argument("--quiet", action="store_true", help="print only warnings and problems"),
        argument(
            "--canary",
            type=arguments.mail_address,
            metavar="ADDRESS",
            help="send a test message to ADDRESS the way mail takes; it is checked, marked as spam and never "
            "learned",
        ),
        details="It queries the daemon, its listeners, Redis and the next hop, and changes nothing. Run it as "
        "the daemon's user.",
        module="nbstream.doctor.command",
        examples=("nbstream doctor", "nbstream doctor --quiet --canary ann@example.org"),
        exit_codes={
            0: "Nothing is wrong; notes may be printed.",
            3: "There are warnings, and no problems.",
            4: "There are problems, possibly in the configuration.",
        },
    ),
    command(
        "config",
        "check or show the configuration",
        actions(
            command(
                "check",
                "check a configuration file without starting anything",
                argument(
                    "file",
                    nargs="?",
                    type=arguments.file_path,
                    metavar="FILE",
                    help="default: the file that the daemon would read",
                ),
                examples=("nbstream config check", "nbstream config check /etc/nbstream/nbstream.yaml"),
                exit_codes={
                    0: "The configuration can be used.",
                    78: "The configuration has problems, which are printed.",
                },
            ),
            command(
                "show",
                "print every setting in effect, with the line it comes from",
                one_of(
                    argument("--defaults", action="store_true", help="print the defaults, without reading a file"),
                    argument(
                        "--for",
                        dest="recipient",
                        type=arguments.mail_address,
                        metavar="ADDRESS",
                        help="only the recipient rule that applies to this address, with its thresholds and "
                        "actions",
                    ),
                ),
                details="The output can be used as a configuration file. A password in a URL is hidden.",
                examples=("nbstream config show", "nbstream config show --for ann@example.org"),
                exit_codes={78: "The configuration has problems, which are printed."},
            ),
        ),
        examples=("nbstream config check", "nbstream config show"),
    ),
)

_MESSAGES = (
    command(
        "check",
        "score messages; exit with 1 if one is spam",
        argument(
            "paths",
            nargs="+",
            type=arguments.nonempty_path,
            metavar="PATH",
            help="message, mbox, folder, Maildir, or - for standard input",
        ),
        _USER,
        _json("one JSON object per line, with the clues"),
        details="The messages are not remembered, so they cannot be taught by id later.",
        examples=("nbstream check message.eml", "nbstream check --json ~/Maildir/new"),
        exit_codes={0: "No message is spam.", 1: "At least one message is spam."},
    ),
    command(
        "explain",
        "explain the verdict on a message",
        argument(
            "subjects",
            nargs="+",
            type=arguments.nonempty_path,
            metavar="ID|PATH",
            help="the id in an X-Nbstream field, or a message, mbox, folder, Maildir, or - for standard input",
        ),
        one_of(
            argument(
                "-n",
                dest="clues",
                type=arguments.whole_number,
                default=20,
                metavar="N",
                help="number of clues (default: 20)",
            ),
            argument("--all", action="store_const", dest="clues", const=None, help="all clues"),
        ),
        argument("--now", action="store_true", help="re-evaluate the stored message with the current model"),
        _USER,
        _json("one JSON object per line, with all clues"),
        details="For an id, the reasons at its last check; for a message, the reasons with the current model.",
        examples=("nbstream explain edchtru3oofnfvfqwqz7j2fq", "nbstream explain --all --json message.eml"),
    ),
    command(
        "learn",
        "learn messages as spam or as ham",
        argument(
            "label",
            optional=True,
            choices=arguments.CLASS_NAMES,
            metavar="CLASS",
            help="the label: spam, ham, or a kind of ham in model.classes",
        ),
        argument(
            "--and",
            dest="others",
            action="append",
            nargs="+",
            type=arguments.nonempty_path,
            default=[],
            metavar=("CLASS", "PATH"),
            help="paths of another class; messages of the classes are learned in turns; may be repeated",
        ),
        argument(
            "--reinforce",
            action="store_true",
            help="give more weight to a message whose verdict still contradicts its label",
        ),
        argument(
            "--imap",
            dest="folders",
            action="append",
            type=arguments.imap_folder,
            default=[],
            metavar="URL",
            help="an IMAP folder, of which all messages are learned: imaps://USER@HOST/FOLDER with "
            "TLS, imap:// with STARTTLS; may be repeated",
        ),
        argument(
            "--password-file",
            type=arguments.file_path,
            metavar="FILE",
            help="file with the password of the IMAP accounts (default: ask on the terminal)",
        ),
        argument(
            "--ca-file",
            type=arguments.file_path,
            metavar="FILE",
            help="certificates (PEM) to trust for IMAP instead of the system's",
        ),
        group(
            "learn all mailboxes of a site, without CLASS and PATH",
            argument(
                "--mailboxes",
                type=arguments.mailbox_template,
                metavar="TEMPLATE",
                help="their location: a path such as /var/mail/%%d/%%n, or a URL such as "
                "imaps://%%u@mail.example.org/ with --users; %%u is a user's whole name, %%n what stands before "
                "its @, %%d the domain. Junk is learned as spam; the archive, folders that people sort into, and "
                "what they answered or flagged as ham",
            ),
            argument(
                "--users",
                type=arguments.file_path,
                metavar="FILE",
                help="only the mailboxes of these users, one per line",
            ),
            one_of(
                argument("--plan", action="store_true", help="show what would be learned, and learn nothing"),
                argument("--yes", action="store_true", help="learn without asking"),
            ),
            argument(
                "--per-account",
                type=arguments.whole_number,
                default=2000,
                metavar="N",
                help="at most N messages per account and class, the newest (default: 2000)",
            ),
        ),
        *_TAUGHT,
        details="A message that was learned with the other label is relearned; one that was learned with the same "
        "label changes nothing. With --reinforce such a message gets more weight, up to that of three messages, "
        "if its verdict still contradicts the label.",
        examples=(
            "nbstream learn spam ~/Maildir/.Junk --and ham ~/Maildir/.Archive",
            "nbstream learn --mailboxes /var/mail/%d/%n",
        ),
        exit_codes={0: "All messages are learned, or were before; with --mailboxes also after printing a plan."},
        usage="%(prog)s [-h] [-c FILE] CLASS [PATH ...] [--id ID ...] [--imap URL ...]\n"
        "           [--and CLASS PATH ...]\n"
        "       %(prog)s [-h] [-c FILE] --mailboxes TEMPLATE [--users FILE] [--plan | --yes] ...",
    ),
    command(
        "unlearn",
        "unlearn messages",
        *_TAUGHT,
        details="Exactly what was added is subtracted.",
        examples=("nbstream unlearn message.eml", "nbstream unlearn --id edchtru3oofnfvfqwqz7j2fq"),
        exit_codes={0: "None of the messages is learned any more, if it ever was."},
        usage="%(prog)s [-h] [-c FILE] [PATH ...] [--id ID ...]",
        module="nbstream.cli.commands.learn",
        label=None,
        reinforce=False,
        folders=[],
        mailboxes=None,
        others=[],
    ),
    command(
        "quarantine",
        "list, show and release quarantined messages",
        actions(
            command(
                "list",
                "list the messages, oldest first",
                _json("one JSON object per line"),
                examples=("nbstream quarantine list", "nbstream quarantine list --json"),
            ),
            command(
                "show",
                "show a message: envelope and text",
                argument(
                    "id",
                    type=arguments.message_id_prefix,
                    metavar="ID",
                    help="the id of a message, or its beginning",
                ),
                examples=("nbstream quarantine show edchtru3oofnfvfqwqz7j2fq", "nbstream quarantine show edch"),
            ),
            command(
                "release",
                "deliver messages and learn them as ham",
                argument(
                    "ids",
                    nargs="+",
                    type=arguments.message_id_prefix,
                    metavar="ID",
                    help="the id of a message, or its beginning",
                ),
                argument(
                    "--again",
                    action="store_true",
                    help="also messages that an interrupted release may already have delivered",
                ),
                examples=(
                    "nbstream quarantine release edchtru3oofnfvfqwqz7j2fq",
                    "nbstream quarantine release --again edch",
                ),
                exit_codes={69: "The next hop refuses a message.", 75: "A message could not be released now."},
            ),
        ),
        examples=("nbstream quarantine list", "nbstream quarantine release edch"),
    ),
    command(
        "digest",
        "show the next digest of a user, or send digests now",
        argument("address", nargs="?", metavar="ADDRESS", help="only the digest of this user"),
        argument("--html", action="store_true", help="show the HTML instead of the text"),
        argument("--send", action="store_true", help="send digests instead of showing one"),
        details="Links in the preview are inactive, and nothing is recorded. --send sends all digests with "
        "something new at once, and prints how many were sent, refused permanently by the next hop, and "
        "deferred. Mail of the last minute goes into the next digest.",
        examples=("nbstream digest ann@example.org", "nbstream digest --send"),
        exit_codes={
            66: "Nothing new is quarantined for the user, or they get no digest.",
            69: "The next hop refuses a digest.",
            75: "A digest could not be sent now.",
        },
    ),
    command(
        "list",
        "show and change lists of allowed and blocked senders",
        actions(
            command(
                "add",
                "add a sender, or change its entry",
                argument("kind", choices=("allow", "block"), metavar="KIND", help="allow or block"),
                argument(
                    "sender",
                    type=arguments.sender,
                    metavar="SENDER",
                    help="ann@example.org, example.org, *.example.org, or 192.0.2.0/24",
                ),
                argument("--user", type=arguments.mail_address, metavar="ADDRESS", help="the list of this user"),
                details="Allow entries apply only to authenticated senders. Mail from blocked senders is spam.",
                examples=(
                    "nbstream list add block offers.example",
                    "nbstream list add allow boss@partner.example --user ann@example.org",
                ),
                exit_codes={65: "The list is full."},
            ),
            command(
                "remove",
                "remove a sender",
                argument(
                    "sender",
                    type=arguments.sender,
                    metavar="SENDER",
                    help="ann@example.org, example.org, *.example.org, or 192.0.2.0/24",
                ),
                argument("--user", type=arguments.mail_address, metavar="ADDRESS", help="the list of this user"),
                examples=(
                    "nbstream list remove offers.example",
                    "nbstream list remove boss@partner.example --user ann@example.org",
                ),
                exit_codes={66: "The list has no such entry."},
            ),
            command(
                "show",
                "show the entries, with who added them and when",
                argument("--user", type=arguments.mail_address, metavar="ADDRESS", help="the list of this user"),
                _json("one JSON object per line"),
                examples=("nbstream list show", "nbstream list show --user ann@example.org --json"),
            ),
        ),
        details="Without --user, the site's list, which applies to all recipients.",
        examples=("nbstream list add allow partner.example", "nbstream list show --user ann@example.org"),
    ),
)

_LEARNED = (
    command(
        "model",
        "show what the common model and own models have learned",
        actions(
            command(
                "list",
                "list all own models, most recently used first",
                _json("one JSON object per model"),
                details="The size of a model in Redis is an estimate.",
                examples=("nbstream model list", "nbstream model list --json"),
            ),
            command(
                "show",
                "show a model: what it has learned, its levels and its top tokens",
                argument(
                    "name",
                    nargs="?",
                    type=arguments.own_model_name,
                    metavar="NAME",
                    help="an own model, as in model list (default: the common model)",
                ),
                argument(
                    "-k",
                    type=arguments.whole_number,
                    default=5,
                    metavar="N",
                    help="number of tokens of each class (default: 5)",
                ),
                _json("one JSON object per model"),
                details="Each token has the log-ratio that it votes with: positive for spam, negative for ham. "
                "--json has its counts too.",
                examples=("nbstream model show -k 20", "nbstream model show example.org/ann --json"),
                exit_codes={66: "There is no such own model."},
            ),
        ),
        examples=("nbstream model list", "nbstream model show -k 20"),
    ),
    command(
        "status",
        "show the state of the model and the daemon",
        _json("one JSON object"),
        details="It shows what was learned and is still needed, thresholds, guarantees of budgets, and whether "
        "the policy in the file is the active one.",
        examples=("nbstream status", "nbstream status --json"),
    ),
    command(
        "history",
        "show who taught what, when, and its effect",
        *_SELECTION,
        _USER,
        argument("--limit", type=arguments.whole_number, metavar="N", help="only the N most recent changes"),
        _json("one JSON object per line"),
        examples=(
            "nbstream history --since 2h",
            "nbstream history --since 2026-01-31T12:00+01:00 --actor 192.0.2.7 --json",
        ),
    ),
    command(
        "undo",
        "undo lessons; without --yes, show which",
        *_SELECTION,
        _USER,
        argument("--yes", action="store_true", help="do it"),
        _json("one JSON object per line; the last one is the summary"),
        details="It needs --since or --id.",
        examples=(
            "nbstream undo --since 2h --actor 192.0.2.7",
            "nbstream undo --id edchtru3oofnfvfqwqz7j2fq --yes",
        ),
        module="nbstream.cli.commands.history",
        exit_codes={0: "The changes were undone as far as possible."},
    ),
    command(
        "forget",
        "erase a user, an own model or what was learned automatically",
        one_of(
            argument(
                "--user", type=arguments.mail_address, metavar="ADDRESS", help="everything stored about this user"
            ),
            argument(
                "--model",
                type=arguments.own_model_name,
                metavar="NAME",
                help="an own model, by its name in model list",
            ),
            argument("--auto", action="store_true", help="everything that was learned automatically"),
            required=True,
        ),
        argument("--yes", action="store_true", help="do it"),
        _json("one JSON object"),
        details="Without --yes, it only shows what it would erase. For a user: their own model, what other "
        "models learned from them, remembered messages to them, their sender list, preferences and sessions. "
        "Quarantined mail and the log stay. Daemons may be running; an interrupted run can be repeated.",
        examples=("nbstream forget --user ann@example.org", "nbstream forget --auto --yes"),
        exit_codes={
            66: "There is no such own model.",
            75: "Redis is unavailable, or something new about the user arrived meanwhile: run it again.",
        },
    ),
    command(
        "export",
        "write all models to a file, with own models and automatic learning",
        argument("--model", type=arguments.own_model_name, metavar="NAME", help="only this own model"),
        argument(
            "file",
            type=arguments.nonempty_path,
            metavar="FILE",
            help="the file, replaced when the export is complete; - is standard output",
        ),
        module="nbstream.cli.commands.transfer",
        details="The file contains counts and ledgers, and only its owner can read it.",
        examples=(
            "nbstream export models.gz",
            "nbstream export --model example.org/ann - | ssh mx2 nbstream import --model example.org/ann -",
        ),
        exit_codes={66: "There is no such own model."},
    ),
    command(
        "import",
        "read exported models into empty ones",
        argument(
            "--model", type=arguments.own_model_name, metavar="NAME", help="one exported own model into this one"
        ),
        argument(
            "file",
            type=arguments.nonempty_path,
            metavar="FILE",
            help="the file that export wrote; - is standard input",
        ),
        module="nbstream.cli.commands.transfer",
        details="Lessons for these models are refused meanwhile.",
        examples=("nbstream import models.gz", "nbstream import --model example.org/anna ann.gz"),
        exit_codes={66: "The file is damaged.", 78: "The file is of the wrong kind, or a model is not empty."},
    ),
)

_ACCURACY = (
    command(
        "evaluate",
        "measure the accuracy on labelled mail",
        argument(
            "index",
            nargs="?",
            type=arguments.file_path,
            metavar="INDEX",
            help="lines of label<TAB>path in stream order, or a .csv or .tsv of label and text",
        ),
        argument(
            "--spam",
            nargs="+",
            type=arguments.nonempty_path,
            metavar="PATH",
            help="instead of INDEX: messages, mboxes, folders of spam",
        ),
        argument(
            "--ham",
            nargs="+",
            type=arguments.nonempty_path,
            metavar="PATH",
            help="instead of INDEX: messages, mboxes, folders of ham",
        ),
        argument(
            "--regime",
            type=arguments.regime_name,
            default="immediate",
            metavar="immediate|delayed:N|errors|unsure|inbox[:P,Q,DELAY]|spam-only[:P,DELAY,KEEP]|first:N|none",
            help="which labels are learned, and when (default: each at once). inbox: a person moves a share P of "
            "the spam in the inbox to Junk and rescues a share Q of the ham in Junk, DELAY messages later, and "
            "labels nothing else (default: 0.3,0.3,50). spam-only: a person moves a share P of the spam in the "
            "inbox, DELAY messages later, and never labels ham; with autolearn, mail unmoved KEEP messages later "
            "is implicit ham (default: 0.3,50,200). first:N: the first N labels are learned, and none later",
        ),
        argument(
            "--taught",
            type=arguments.whole_number,
            default=0,
            metavar="N",
            help="learn all labels of the first N messages, like old mail, and start the regime after them",
        ),
        argument("--limit", type=arguments.whole_number, metavar="N", help="only the first N messages"),
        argument(
            "--skip",
            type=arguments.whole_number,
            metavar="N",
            help="exclude the first N messages from the measures (default: those of --taught or first:N)",
        ),
        argument(
            "--label-noise",
            type=arguments.fraction,
            default=0.0,
            metavar="P",
            help="flip this share of the labels that are learned",
        ),
        argument(
            "--seed",
            type=arguments.whole_number,
            default=0,
            metavar="S",
            help="which labels are flipped, and which messages are moved with inbox",
        ),
        argument(
            "--other",
            default="",
            metavar="FIELD",
            help="read a peer filter's verdict from this header field, such as X-Spam-Status or X-Bogosity, and "
            "compare both filters",
        ),
        _json("the measures as one JSON object on standard output"),
        argument(
            "--scores",
            type=arguments.file_path,
            metavar="FILE",
            help="score (log-odds in nats), P(spam) and verdict of each message, as TSV",
        ),
        argument(
            "--suspects",
            type=arguments.file_path,
            metavar="FILE",
            help="messages whose label may be wrong because all others contradict it, as TSV; only for the "
            "default regime",
        ),
        details="Each message is scored, then learned. The daemon and its model are not affected.",
        examples=(
            "nbstream evaluate index.tsv --scores scores.tsv --suspects suspects.tsv",
            "nbstream evaluate --spam ~/Maildir/.Junk --ham ~/Maildir --regime errors --json",
        ),
        exit_codes={66: "There is no spam or no ham to measure, or an input cannot be read."},
    ),
    command(
        "tune",
        "show what other thresholds would have done to labelled mail",
        argument(
            "--with",
            dest="other",
            type=arguments.file_path,
            metavar="FILE",
            help="compare the verdict section of this configuration",
        ),
        _json("one JSON object"),
        details="--with shows which verdicts another configuration would change.",
        examples=("nbstream tune", "nbstream tune --with other.yaml"),
    ),
)

_COMMANDS: Mapping[str, Sequence[AddCommand]] = {
    "the daemon": _DAEMON,
    "messages and senders": _MESSAGES,
    "what was learned": _LEARNED,
    "accuracy": _ACCURACY,
}
"""All commands, by group."""
