"""The commands that measure the filter, and the machine that it runs on: their arguments."""

from __future__ import annotations

from nbstream.cli import arguments
from nbstream.cli.parser.command_parser import Commands, add_command


def add_commands(commands: Commands) -> None:
    """Add them in the order of the help."""
    _add_evaluate(commands)
    _add_tune(commands)
    _add_replay(commands)
    _add_bench(commands)


def _add_evaluate(commands: Commands) -> None:
    evaluate = add_command(
        commands,
        "evaluate",
        "score a labelled stream, learning as it goes, and measure how good that was",
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
        metavar="immediate|delayed:N|errors|unsure|inbox[:P,Q,DELAY]|first:N|none",
        help="which labels are learned, and when (default: each at once). inbox: a person moves a share P of the "
        "spam in the inbox to Junk and rescues a share Q of the ham in Junk, DELAY messages later, and labels "
        "nothing else (default: 0.3,0.3,50). first:N: the first N labels are learned, and none later",
    )
    evaluate.add_argument(
        "--taught",
        type=arguments.whole_number,
        default=0,
        metavar="N",
        help="learn all labels of the first N messages, as of old mail, and begin the regime after them",
    )
    evaluate.add_argument("--limit", type=arguments.whole_number, metavar="N", help="only the first N messages")
    evaluate.add_argument(
        "--skip",
        type=arguments.whole_number,
        metavar="N",
        help="leave the first N out of the measures (default: those of --taught or first:N)",
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
    evaluate.add_argument("--json", action="store_true", help="the measures as one JSON object on standard output")
    evaluate.add_argument(
        "--json-file", type=arguments.file_path, metavar="FILE", help="the same object written to a file"
    )
    evaluate.json_hint = "--json prints to standard output; to write a file give --json-file FILE"
    evaluate.add_argument(
        "--scores",
        type=arguments.file_path,
        metavar="FILE",
        help="score (log-odds in nats), P(spam) and verdict of each message, as TSV",
    )
    evaluate.add_argument(
        "--plot", type=arguments.file_path, metavar="FILE.png", help="ROC, learning curve and histograms"
    )
    evaluate.add_argument("--redis", metavar="URL", help="count in a temporary model there instead of in memory")
    evaluate.set_defaults(module="evaluate", wrong_usage=evaluate.error)


def _add_tune(commands: Commands) -> None:
    tune = add_command(
        commands,
        "tune",
        "what other thresholds would have done to the mail labelled last",
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


def _add_replay(commands: Commands) -> None:
    replay = add_command(
        commands,
        "replay",
        "send a labelled corpus through a running daemon: its next hop gets the mail, its model learns",
        details="It prints how good the verdicts were. Give it a daemon of its own.",
    )
    replay.add_argument(
        "index", type=arguments.file_path, metavar="INDEX", help="lines of label<TAB>path, in stream order"
    )
    replay.add_argument(
        "--smtp",
        type=arguments.server_address,
        metavar="HOST:PORT",
        help="the daemon's SMTP listener (default: as configured)",
    )
    replay.add_argument(
        "--feedback",
        choices=("immediate", "errors", "unsure", "none"),
        default="immediate",
        help="for which messages the label is sent back (default: immediate, which is each at once)",
    )
    replay.add_argument("--limit", type=arguments.whole_number, metavar="N", help="only the first N messages")
    replay.add_argument(
        "--skip", type=arguments.whole_number, default=0, metavar="N", help="leave the first N out of the measures"
    )
    replay.add_argument("--json", action="store_true", help="the result as one JSON object")
    replay.set_defaults(module="replay")


def _add_bench(commands: Commands) -> None:
    bench = add_command(
        commands,
        "bench",
        "measure what a check and a lesson cost on this machine",
        details="It takes some seconds, and needs no mail. The daemon and its model are left alone: it starts a "
        "private Redis, on the disk of state_dir if that folder is there, and removes it. What else runs on the "
        "machine makes the figures worse.",
    )
    bench.add_argument(
        "--mail",
        nargs="+",
        type=arguments.nonempty_path,
        metavar="PATH",
        help="messages, mboxes, folders to measure with (default: generated mail)",
    )
    bench.add_argument(
        "--messages",
        type=arguments.whole_number,
        default=1000,
        metavar="N",
        help="how many messages, at least 20; one half is taught, the other one is checked (default: 1000)",
    )
    bench.add_argument(
        "--seed",
        type=arguments.whole_number,
        default=17,
        metavar="S",
        help="which mail is generated (default: 17)",
    )
    bench.add_argument("--json", action="store_true", help="one JSON object")
    bench.set_defaults(module="bench", wrong_usage=bench.error)
