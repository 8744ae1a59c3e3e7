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
    for add in _IN_ORDER_OF_HELP:
        add(commands)
    return parser


def _add_serve(commands: Commands) -> None:
    serve = add_command(
        commands,
        "serve",
        "run the daemon",
        details="It runs until SIGTERM, and then finishes the work in progress.",
        examples=("nbstream serve --hints", "nbstream serve -c /etc/nbstream/nbstream.yaml"),
        exit_codes={0: "The daemon was stopped by SIGTERM or SIGINT."},
    )
    serve.add_argument(
        "--hints",
        action="store_true",
        help="when mail is accepted, print commands to try and a link to the web interface",
    )


def _add_demo(commands: Commands) -> None:
    demo = add_command(
        commands,
        "demo",
        "try the filter and its web interface with made-up mail",
        details="A daemon with a private Redis runs in a temporary folder until Ctrl-C, and leaves nothing "
        "behind.",
        examples=("nbstream demo", "nbstream demo --messages 100 --pause 0"),
        exit_codes={0: "It was ended by Ctrl-C, or after --messages."},
    )
    demo.add_argument(
        "--messages", type=arguments.whole_number, metavar="N", help="end after N messages (default: at Ctrl-C)"
    )
    demo.add_argument(
        "--pause", type=float, default=1.5, metavar="SECONDS", help="pause between two messages (default: 1.5)"
    )
    demo.add_argument("--seed", type=int, default=1, metavar="N", help="seed of the made-up mail (default: 1)")


def _add_reload(commands: Commands) -> None:
    reload = add_command(
        commands,
        "reload",
        "apply a changed configuration without a restart",
        details="The command waits for the daemon and prints its answer.",
        examples=("nbstream reload", "nbstream reload --json"),
        exit_codes={
            0: "The daemon applied the configuration.",
            69: "No daemon runs.",
            75: "The daemon did not answer.",
            78: "The configuration was refused, and nothing has changed.",
        },
    )
    reload.add_argument("--json", action="store_true", help="the daemon's answer as one JSON object")


def _add_ui(commands: Commands) -> None:
    ui = add_command(
        commands,
        "ui",
        "print a one-time link to the web interface",
        details="The link works once, within ten minutes, and logs a browser in for twelve hours. Run this as "
        "the daemon's user.",
        examples=("nbstream ui", "nbstream ui --read-only -c /etc/nbstream/nbstream.yaml"),
        exit_codes={
            0: "The link is printed.",
            69: "No daemon runs.",
            75: "Redis is away.",
            78: "The HTTP listener is off, or the configuration cannot be used.",
        },
    )
    ui.add_argument("--read-only", action="store_true", help="a link that can change nothing")


def _add_doctor(commands: Commands) -> None:
    doctor = add_command(
        commands,
        "doctor",
        "examine the installation and suggest remedies",
        details="It queries the daemon, its listeners, Redis and the next hop, and changes nothing. Run it as "
        "the daemon's user.",
        examples=("nbstream doctor", "nbstream doctor --quiet --canary ann@example.org"),
        exit_codes={
            0: "Nothing is wrong; notes may be printed.",
            3: "There are warnings, and no problems.",
            4: "There are problems, possibly in the configuration.",
        },
    )
    doctor.add_argument("--json", action="store_true", help="the findings as one JSON object")
    doctor.add_argument("--quiet", action="store_true", help="print only warnings and problems")
    doctor.add_argument(
        "--canary",
        type=arguments.mail_address,
        metavar="ADDRESS",
        help="send a test message to ADDRESS the way mail takes; it is checked, marked as spam and never learned",
    )


def _add_config(commands: Commands) -> None:
    config = add_command(
        commands,
        "config",
        "check or show the configuration",
        examples=("nbstream config check", "nbstream config show"),
    )
    actions = config.add_subparsers(dest="action", required=True, metavar="ACTION", parser_class=CommandParser)
    check = add_command(
        actions,
        "check",
        "check a configuration file without starting anything",
        examples=("nbstream config check", "nbstream config check /etc/nbstream/nbstream.yaml"),
        exit_codes={
            0: "The configuration can be used.",
            78: "The configuration has problems, which are printed.",
        },
    )
    check.add_argument(
        "file",
        nargs="?",
        type=arguments.file_path,
        metavar="FILE",
        help="default: the file that the daemon would read",
    )
    show = add_command(
        actions,
        "show",
        "print every setting in effect, with the line it comes from",
        details="The output can be used as a configuration file. A password in a URL is hidden.",
        examples=("nbstream config show", "nbstream config show --for ann@example.org"),
        exit_codes={78: "The configuration has problems, which are printed."},
    )
    shown = show.add_mutually_exclusive_group()
    shown.add_argument("--defaults", action="store_true", help="print the defaults, without reading a file")
    shown.add_argument(
        "--for",
        dest="recipient",
        type=arguments.mail_address,
        metavar="ADDRESS",
        help="only the recipient rule that applies to this address, with its thresholds and actions",
    )


def _add_check(commands: Commands) -> None:
    check = add_command(
        commands,
        "check",
        "score messages; exit with 1 if one is spam",
        details="The messages are not remembered, so they cannot be taught by id later.",
        examples=("nbstream check message.eml", "nbstream check --json ~/Maildir/new"),
        exit_codes={0: "No message is spam.", 1: "At least one message is spam."},
    )
    check.add_argument(
        "paths",
        nargs="+",
        type=arguments.nonempty_path,
        metavar="PATH",
        help="message, mbox, folder, Maildir, or - for standard input",
    )
    _add_user(check)
    check.add_argument("--json", action="store_true", help="one JSON object per line, with the clues")


def _add_explain(commands: Commands) -> None:
    explain = add_command(
        commands,
        "explain",
        "explain the verdict on a message",
        details="For an id, the reasons at its last check; for a message, the reasons with the current model.",
        examples=("nbstream explain edchtru3oofnfvfqwqz7j2fq", "nbstream explain --all --json message.eml"),
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
        help="number of clues (default: 20)",
    )
    shown.add_argument("--all", action="store_const", dest="clues", const=None, help="all clues")
    explain.add_argument(
        "--now", action="store_true", help="re-evaluate the stored message with the current model"
    )
    _add_user(explain)
    explain.add_argument("--json", action="store_true", help="one JSON object per line, with all clues")


def _add_learn(commands: Commands) -> None:
    learn = add_command(
        commands,
        "learn",
        "learn messages as spam or as ham",
        details="A message that was learned with the other label is relearned; one that was learned with the same "
        "label changes nothing. With --reinforce such a message gets more weight, up to that of three messages, "
        "if its verdict still contradicts the label.",
        examples=(
            "nbstream learn spam ~/Maildir/.Junk --and ham ~/Maildir/.Archive",
            "nbstream learn --mailboxes /var/mail/%d/%n",
        ),
        exit_codes={0: "All messages are learned, or were before; with --mailboxes also after printing a plan."},
    )
    # With nargs="+" argparse would show that a path must be there.
    learn.usage = "%(prog)s [-h] [-c FILE] CLASS [PATH ...] [--id ID ...] [--imap URL ...]\n"
    learn.usage += "           [--and CLASS PATH ...]\n"
    learn.usage += "       %(prog)s [-h] [-c FILE] --mailboxes TEMPLATE [--users FILE] [--plan | --yes] ..."
    label = learn.add_argument(
        "label",
        choices=arguments.CLASS_NAMES,
        metavar="CLASS",
        help="the label: spam, ham, or a kind of ham in model.classes",
    )
    learn.add_argument(
        "--and",
        dest="others",
        action="append",
        nargs="+",
        type=arguments.nonempty_path,
        default=[],
        metavar=("CLASS", "PATH"),
        help="paths of another class, learned after the first ones; may be repeated",
    )
    learn.add_argument(
        "--reinforce",
        action="store_true",
        help="give more weight to a message whose verdict still contradicts its label",
    )
    learn.add_argument(
        "--imap",
        dest="folders",
        action="append",
        type=arguments.imap_folder,
        default=[],
        metavar="URL",
        help="an IMAP folder, starting after the last message learned before: imaps://USER@HOST/FOLDER with TLS, "
        "imap:// with STARTTLS; may be repeated",
    )
    learn.add_argument(
        "--all", action="store_true", help="with --imap, all messages, including those learned before"
    )
    learn.add_argument(
        "--password-file",
        type=arguments.file_path,
        metavar="FILE",
        help="file with the password of the IMAP accounts (default: ask on the terminal)",
    )
    learn.add_argument(
        "--ca-file",
        type=arguments.file_path,
        metavar="FILE",
        help="certificates (PEM) to trust for IMAP instead of the system's",
    )

    def read_template(text: str) -> object:
        label.required = False  # each letter has a class of its own
        return arguments.mailbox_template(text)

    _add_mailboxes(learn, read_template)
    unlearn = add_command(
        commands,
        "unlearn",
        "unlearn messages",
        details="Exactly what was added is subtracted.",
        examples=("nbstream unlearn message.eml", "nbstream unlearn --id edchtru3oofnfvfqwqz7j2fq"),
        exit_codes={0: "None of the messages is learned any more, if it ever was."},
    )
    unlearn.usage = "%(prog)s [-h] [-c FILE] [PATH ...] [--id ID ...]"
    unlearn.set_defaults(
        module="nbstream.cli.commands.learn", label=None, reinforce=False, folders=[], mailboxes=None, others=[]
    )
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
            help="learn in the name of this user; recorded in the history as 'user YOU for NAME'",
        )
        _add_user(parser)
        paths.required = False  # an --id will do; with nargs="*" argparse takes none where an option comes first
        parser.add_argument(
            "--id",
            dest="ids",
            action="extend",
            nargs="+",
            type=arguments.message_id,
            default=[],
            metavar="ID",
            help="recently checked messages, by the id in their X-Nbstream field",
        )


def _add_mailboxes(learn: CommandParser, read_template: Callable[[str], object]) -> None:
    """Add what learns from all mailboxes of a site."""
    mailboxes = learn.add_argument_group("learn all mailboxes of a site, without CLASS and PATH")
    mailboxes.add_argument(
        "--mailboxes",
        type=read_template,
        metavar="TEMPLATE",
        help="their location: a path such as /var/mail/%%d/%%n, or a URL such as imaps://%%u@mail.example.org/ "
        "with --users; %%u is a user's whole name, %%n what stands before its @, %%d the domain. Junk is "
        "learned as spam; the archive, folders that people sort into, and what they answered or flagged as "
        "ham",
    )
    mailboxes.add_argument(
        "--users",
        type=arguments.file_path,
        metavar="FILE",
        help="only the mailboxes of these users, one per line",
    )
    asked = mailboxes.add_mutually_exclusive_group()
    asked.add_argument("--plan", action="store_true", help="show what would be learned, and learn nothing")
    asked.add_argument("--yes", action="store_true", help="learn without asking")
    mailboxes.add_argument(
        "--per-account",
        type=arguments.whole_number,
        default=2000,
        metavar="N",
        help="at most N messages per account and class, the newest (default: 2000)",
    )


def _add_quarantine(commands: Commands) -> None:
    quarantine = add_command(
        commands,
        "quarantine",
        "list, show and release quarantined messages",
        examples=("nbstream quarantine list", "nbstream quarantine release edch"),
    )
    actions = quarantine.add_subparsers(dest="action", required=True, metavar="ACTION", parser_class=CommandParser)
    listing = add_command(
        actions,
        "list",
        "list the messages, oldest first",
        examples=("nbstream quarantine list", "nbstream quarantine list --json"),
    )
    listing.add_argument("--json", action="store_true", help="one JSON object per line")
    show = add_command(
        actions,
        "show",
        "show a message: envelope and text",
        examples=("nbstream quarantine show edchtru3oofnfvfqwqz7j2fq", "nbstream quarantine show edch"),
    )
    show.add_argument(
        "id", type=arguments.message_id_prefix, metavar="ID", help="the id of a message, or its beginning"
    )
    release = add_command(
        actions,
        "release",
        "deliver messages and learn them as ham",
        examples=(
            "nbstream quarantine release edchtru3oofnfvfqwqz7j2fq",
            "nbstream quarantine release --again edch",
        ),
        exit_codes={69: "The next hop refuses a message.", 75: "A message could not be released now."},
    )
    release.add_argument(
        "ids",
        nargs="+",
        type=arguments.message_id_prefix,
        metavar="ID",
        help="the id of a message, or its beginning",
    )
    release.add_argument(
        "--again", action="store_true", help="also messages that an interrupted release may already have delivered"
    )


def _add_digest(commands: Commands) -> None:
    digest = add_command(
        commands,
        "digest",
        "show the next digest of a user, or send digests now",
        details="Links in the preview are inactive, and nothing is recorded. --send sends all digests with "
        "something new at once, and prints how many were sent, refused permanently by the next hop, and "
        "deferred. Mail of the last minute goes into the next digest.",
        examples=("nbstream digest ann@example.org", "nbstream digest --send"),
        exit_codes={
            66: "Nothing new is quarantined for the user, or they get no digest.",
            69: "The next hop refuses a digest.",
            75: "A digest could not be sent now.",
        },
    )
    digest.add_argument("address", nargs="?", metavar="ADDRESS", help="only the digest of this user")
    digest.add_argument("--html", action="store_true", help="show the HTML instead of the text")
    digest.add_argument("--send", action="store_true", help="send digests instead of showing one")


def _add_list(commands: Commands) -> None:
    sender_list = add_command(
        commands,
        "list",
        "show and change lists of allowed and blocked senders",
        details="Without --user, the site's list, which applies to all recipients.",
        examples=("nbstream list add allow partner.example", "nbstream list show --user ann@example.org"),
    )
    actions = sender_list.add_subparsers(
        dest="action", required=True, metavar="ACTION", parser_class=CommandParser
    )
    add = add_command(
        actions,
        "add",
        "add a sender, or change its entry",
        details="Allow entries apply only to authenticated senders. Mail from blocked senders is spam.",
        examples=(
            "nbstream list add block offers.example",
            "nbstream list add allow boss@partner.example --user ann@example.org",
        ),
        exit_codes={65: "The list is full."},
    )
    add.add_argument("kind", choices=("allow", "block"), metavar="KIND", help="allow or block")
    remove = add_command(
        actions,
        "remove",
        "remove a sender",
        examples=(
            "nbstream list remove offers.example",
            "nbstream list remove boss@partner.example --user ann@example.org",
        ),
        exit_codes={66: "The list has no such entry."},
    )
    show = add_command(
        actions,
        "show",
        "show the entries, with who added them and when",
        examples=("nbstream list show", "nbstream list show --user ann@example.org --json"),
    )
    for change in (add, remove):
        change.add_argument(
            "sender",
            type=arguments.sender,
            metavar="SENDER",
            help="ann@example.org, example.org, *.example.org, 192.0.2.0/24, or a pattern with * and ?",
        )
    for action in (add, remove, show):
        action.add_argument("--user", type=arguments.mail_address, metavar="ADDRESS", help="the list of this user")
    show.add_argument("--json", action="store_true", help="one JSON object per line")


def _add_model(commands: Commands) -> None:
    model = add_command(
        commands,
        "model",
        "show what the common model and own models have learned",
        examples=("nbstream model list", "nbstream model show -k 20"),
    )
    actions = model.add_subparsers(dest="action", required=True, metavar="ACTION", parser_class=CommandParser)
    listing = add_command(
        actions,
        "list",
        "list all own models, most recently used first",
        details="The size of a model in Redis is an estimate.",
        examples=("nbstream model list", "nbstream model list --json"),
    )
    show = add_command(
        actions,
        "show",
        "show a model: what it has learned, its levels and its top tokens",
        details="Each token has the log-ratio that it votes with: positive for spam, negative for ham. --json has "
        "its counts too.",
        examples=("nbstream model show -k 20", "nbstream model show example.org/ann --json"),
        exit_codes={66: "There is no such own model."},
    )
    show.add_argument(
        "name",
        nargs="?",
        type=arguments.own_model_name,
        metavar="NAME",
        help="an own model, as in model list (default: the common model)",
    )
    show.add_argument(
        "-k",
        type=arguments.whole_number,
        default=5,
        metavar="N",
        help="number of tokens of each class (default: 5)",
    )
    for action in (listing, show):
        action.add_argument("--json", action="store_true", help="one JSON object per model")


def _add_status(commands: Commands) -> None:
    status = add_command(
        commands,
        "status",
        "show the state of the model and the daemon",
        details="It shows what was learned and is still needed, thresholds, guarantees of budgets, and whether "
        "the policy in the file is the active one.",
        examples=("nbstream status", "nbstream status --json"),
    )
    status.add_argument("--json", action="store_true", help="one JSON object")


def _add_history(commands: Commands) -> None:
    history = add_command(
        commands,
        "history",
        "show who taught what, when, and its effect",
        examples=(
            "nbstream history --since 2h",
            "nbstream history --since 2026-01-31T12:00+01:00 --actor 192.0.2.7 --json",
        ),
    )
    _add_selection(history)
    _add_user(history)
    history.add_argument(
        "--limit", type=arguments.whole_number, metavar="N", help="only the N most recent changes"
    )
    history.add_argument("--json", action="store_true", help="one JSON object per line")


def _add_undo(commands: Commands) -> None:
    undo = add_command(
        commands,
        "undo",
        "undo lessons; without --yes, show which",
        details="It needs --since or --id.",
        examples=(
            "nbstream undo --since 2h --actor 192.0.2.7",
            "nbstream undo --id edchtru3oofnfvfqwqz7j2fq --yes",
        ),
        exit_codes={0: "The changes were undone as far as possible."},
    )
    _add_selection(undo)
    _add_user(undo)
    undo.add_argument("--yes", action="store_true", help="do it")
    undo.add_argument("--json", action="store_true", help="one JSON object per line; the last one is the summary")


def _add_forget(commands: Commands) -> None:
    forget = add_command(
        commands,
        "forget",
        "erase a user, an own model, or what was learned automatically; without --yes, show what",
        details="For a user: their own model, what other models learned from them, remembered messages to them, "
        "their sender list, preferences and sessions. Quarantined mail and the log stay. Daemons may be "
        "running; an interrupted run can be repeated.",
        examples=("nbstream forget --user ann@example.org", "nbstream forget --auto --yes"),
        exit_codes={
            66: "There is no such own model.",
            75: "Redis is unavailable, or something new about the user arrived meanwhile: run it again.",
        },
    )
    what = forget.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "--user", type=arguments.mail_address, metavar="ADDRESS", help="everything stored about this user"
    )
    what.add_argument(
        "--model", type=arguments.own_model_name, metavar="NAME", help="an own model, by its name in model list"
    )
    what.add_argument("--auto", action="store_true", help="everything that was learned automatically")
    forget.add_argument("--yes", action="store_true", help="do it")
    forget.add_argument("--json", action="store_true", help="one JSON object")


def _add_user(parser: CommandParser) -> None:
    """Whose model is meant."""
    parser.add_argument(
        "--user",
        type=arguments.mail_address,
        metavar="ADDRESS",
        help="use the own model of this user, if they have one",
    )


def _add_selection(parser: CommandParser) -> None:
    """Which changes of the history are meant."""
    parser.add_argument(
        "--since",
        type=arguments.timestamp,
        metavar="TIME",
        help="from then on: 30m, 2h, 3d ago, or 2026-01-31T12:00+01:00 (without an offset local time)",
    )
    parser.add_argument("--until", type=arguments.timestamp, metavar="TIME", help="only changes before that time")
    parser.add_argument(
        "--source", metavar="S", help="only changes from this source: smtp, http, page, cli and so on"
    )
    parser.add_argument("--actor", metavar="A", help="only changes by this actor: a client's address or a user")
    parser.add_argument(
        "--label",
        choices=arguments.CLASS_NAMES,
        metavar="CLASS",
        help="only changes with this label: spam, ham (of any kind), or a kind",
    )
    parser.add_argument("--id", type=arguments.message_id, metavar="ID", help="only this message")


def _add_transfer(commands: Commands) -> None:
    export = add_command(
        commands,
        "export",
        "write all models to a file, own models and automatic learning included",
        details="The file contains counts and ledgers, and only its owner can read it.",
        examples=(
            "nbstream export models.gz",
            "nbstream export --model example.org/ann - | ssh mx2 nbstream import --model example.org/ann -",
        ),
        exit_codes={66: "There is no such own model."},
    )
    import_ = add_command(
        commands,
        "import",
        "read exported models into empty ones",
        details="Lessons for these models are refused meanwhile.",
        examples=("nbstream import models.gz", "nbstream import --model example.org/anna ann.gz"),
        exit_codes={66: "The file is damaged.", 78: "The file is of the wrong kind, or a model is not empty."},
    )
    for command, whose, file in (
        (export, "only this own model", "the file, replaced when the export is complete; - is standard output"),
        (import_, "one exported own model into this one", "the file that export wrote; - is standard input"),
    ):
        command.add_argument("--model", type=arguments.own_model_name, metavar="NAME", help=whose)
        command.add_argument("file", type=arguments.nonempty_path, metavar="FILE", help=file)
        command.set_defaults(module="nbstream.cli.commands.transfer")


def _add_evaluate(commands: Commands) -> None:
    evaluate = add_command(
        commands,
        "evaluate",
        "measure the accuracy on labelled mail: score each message, then learn it",
        details="The daemon and its model are not affected.",
        examples=(
            "nbstream evaluate index.tsv --scores scores.tsv --suspects suspects.tsv",
            "nbstream evaluate --spam ~/Maildir/.Junk --ham ~/Maildir --regime errors --json",
        ),
    )
    evaluate.add_argument(
        "index",
        nargs="?",
        type=arguments.file_path,
        metavar="INDEX",
        help="lines of label<TAB>path in stream order, or a .csv or .tsv of label and text",
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
        metavar="immediate|delayed:N|errors|unsure|inbox[:P,Q,DELAY]|spam-only[:P,DELAY,KEEP]|first:N|none",
        help="which labels are learned, and when (default: each at once). inbox: a person moves a share P of the "
        "spam in the inbox to Junk and rescues a share Q of the ham in Junk, DELAY messages later, and labels "
        "nothing else (default: 0.3,0.3,50). spam-only: a person moves a share P of the spam in the inbox, DELAY "
        "messages later, and never labels ham; with autolearn, mail unmoved KEEP messages later is implicit ham "
        "(default: 0.3,50,200). first:N: the first N labels are learned, and none later",
    )
    evaluate.add_argument(
        "--taught",
        type=arguments.whole_number,
        default=0,
        metavar="N",
        help="learn all labels of the first N messages, like old mail, and start the regime after them",
    )
    evaluate.add_argument("--limit", type=arguments.whole_number, metavar="N", help="only the first N messages")
    evaluate.add_argument(
        "--skip",
        type=arguments.whole_number,
        metavar="N",
        help="exclude the first N messages from the measures (default: those of --taught or first:N)",
    )
    evaluate.add_argument(
        "--label-noise",
        type=arguments.fraction,
        default=0.0,
        metavar="P",
        help="flip this share of the labels that are learned",
    )
    evaluate.add_argument(
        "--seed",
        type=arguments.whole_number,
        default=0,
        metavar="S",
        help="which labels are flipped, and which messages are moved with inbox",
    )
    evaluate.add_argument(
        "--other",
        default="",
        metavar="FIELD",
        help="read a peer filter's verdict from this header field, such as X-Spam-Status or X-Bogosity, and "
        "compare both filters",
    )
    evaluate.add_argument("--json", action="store_true", help="the measures as one JSON object on standard output")
    evaluate.add_argument(
        "--scores",
        type=arguments.file_path,
        metavar="FILE",
        help="score (log-odds in nats), P(spam) and verdict of each message, as TSV",
    )
    evaluate.add_argument(
        "--suspects",
        type=arguments.file_path,
        metavar="FILE",
        help="messages whose label may be wrong because all others contradict it, as TSV; only for the default "
        "regime",
    )
    evaluate.add_argument("--redis", metavar="URL", help="use a temporary model in this Redis instead of memory")


def _add_tune(commands: Commands) -> None:
    tune = add_command(
        commands,
        "tune",
        "show what other thresholds would have done to recently labelled mail",
        details="--with shows which verdicts another configuration would change.",
        examples=("nbstream tune", "nbstream tune --with other.yaml"),
    )
    tune.add_argument(
        "--with",
        dest="other",
        type=arguments.file_path,
        metavar="FILE",
        help="compare the verdict section of this configuration",
    )
    tune.add_argument("--json", action="store_true", help="one JSON object")


_IN_ORDER_OF_HELP = (
    _add_serve,
    _add_demo,
    _add_reload,
    _add_ui,
    _add_doctor,
    _add_config,
    _add_check,
    _add_explain,
    _add_learn,
    _add_quarantine,
    _add_digest,
    _add_list,
    _add_model,
    _add_status,
    _add_history,
    _add_undo,
    _add_forget,
    _add_transfer,
    _add_evaluate,
    _add_tune,
)


# What the parsers of all commands share: ``-c``, the form of the help, and how wrong words are refused.

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

_MODULES = {"demo": "nbstream.demo.command", "doctor": "nbstream.doctor.command"}
"""The modules of commands that live in a folder of their own."""

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
    name, unless ``_MODULES`` or the defaults of the parser name another one.
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
    command = parser.prog.split()[1]
    parser.set_defaults(module=_MODULES.get(command, f"nbstream.cli.commands.{command}"), wrong_usage=parser.error)
    return parser
