"""``nbstream evaluate``: score a labelled stream, learning as it goes, and say how good that was.

Rules: counts live in memory, and what the daemon learned is never touched. A file that cannot be written is an
error before the run, so that no result is lost. SIGTERM, and SIGHUP of a terminal that is closed, end a run as
Ctrl-C does.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tqdm import tqdm

from nbstream import interrupts
from nbstream.bayes.columns import CLASSES
from nbstream.bayes.table_counts import make_counts
from nbstream.cli import message_files
from nbstream.daemon import config
from nbstream.daemon.assembly.filter import make_autolearner, make_filter
from nbstream.daemon.assembly.policy import make_message_reader
from nbstream.engine.choice import choose_engine
from nbstream.errors import InputError
from nbstream.evaluation import report, streams
from nbstream.evaluation.run import (
    CachingTokenizer,
    EvaluationOptions,
    EvaluationResult,
    evaluate,
)
from nbstream.evaluation.suspects import list_suspects, write_suspects
from nbstream.filter import ImplicitHamLearner
from nbstream.filter.suspects import describe_suspects
from nbstream.store.model.memory_model import MemoryModel
from nbstream.terminal import check_writable, print_note, translate_write_errors

if TYPE_CHECKING:
    from nbstream.daemon.config import Settings
    from nbstream.errors import NbstreamError
    from nbstream.evaluation.report import EvaluationReport
    from nbstream.evaluation.streams import LabelledStream
    from nbstream.evaluation.suspects import SuspectRow
    from nbstream.terminal import Output


def run(options: argparse.Namespace, output: Output) -> None:
    """Print the measures and write the files; 66 when a path cannot be read (of a pair the rest is measured)."""
    _check_usage(options)
    file = config.find_config_file(options.config)
    settings = config.load_settings(file)
    outputs = (options.scores, options.suspects)
    check_writable([path for path in outputs if path])
    if options.config is None:
        print_note(f"configuration: {file or 'the defaults'}")
    stream = _make_stream(options, output.errors).limited_to(options.limit)
    evaluation_options = EvaluationOptions(
        options.regime, options.label_noise, options.seed, options.taught, options.other
    )
    skip = evaluation_options.taught_messages if options.skip is None else options.skip
    result, suspects = interrupts.run_interruptible(_run(settings, options, stream, evaluation_options))
    measured_labels = {row.label for row in result.rows}
    missing = [label for label in CLASSES if label not in measured_labels]
    if missing:  # nothing can be said of one class alone
        what = f"{missing[0]} message" if measured_labels else "message"
        output.errors.append(InputError(f"there is no {what} to measure"))
        return
    measured = report.build_report(
        result,
        evaluation_options,
        skip,
        options.limit,
        settings.verdict.max_false_positive_rate,
    )
    output.show(measured.lines, measured.members)
    if suspects is not None:
        described = describe_suspects([each.suspect for each in suspects], "labelled")
        advice = ": look at them before you teach them" if suspects else ""
        (print_note if options.json else output.show)(f"{described}{advice}.")
    _write_outputs(options, result, measured, suspects)


def _check_usage(options: argparse.Namespace) -> None:
    pair = (options.spam, options.ham)
    if all(pair) == bool(options.index) or any(pair) != all(pair):
        options.wrong_usage("give an INDEX, or both --spam and --ham")
    if any(message_files.STANDARD_INPUT in (paths or []) for paths in pair):
        options.wrong_usage("--spam and --ham are read twice, standard input cannot be")
    if options.taught and options.regime == "immediate":
        options.wrong_usage("--taught is for another --regime: with immediate every label is learned at once")
    if options.taught and options.regime.startswith("first:"):
        options.wrong_usage("--taught is for another --regime: first:N says how many are taught")
    if options.suspects and (options.regime != "immediate" or options.label_noise):
        options.wrong_usage("--suspects needs all labels as they are: without --regime and --label-noise")


def _make_stream(options: argparse.Namespace, errors: list[NbstreamError]) -> LabelledStream:
    if options.index:
        stream = streams.read_stream(options.index)
        print_note(f"{options.index}: read as {stream.description}")
        return stream
    paths_by_label = {"spam": options.spam, "ham": options.ham}
    return streams.merge_sources(
        [
            streams.MessageSource(label, _count_messages(paths), _raw_messages(paths, errors))
            for label, paths in paths_by_label.items()
        ]
    )


def _count_messages(paths: Sequence[str]) -> int:
    """Return the number of messages; what is wrong with a path is said when it is read for the second time."""
    return sum(1 for _ in message_files.read_messages(paths, [], lambda _: None))


def _raw_messages(paths: Sequence[str], errors: list[NbstreamError]) -> Iterator[tuple[str, bytes]]:
    return ((source.name, source.raw) for source in message_files.read_messages(paths, errors))


async def _run(
    settings: Settings,
    options: argparse.Namespace,
    stream: LabelledStream,
    evaluation_options: EvaluationOptions,
) -> tuple[EvaluationResult, list[SuspectRow] | None]:
    """Return the result of the run, and the suspects, None where nobody asks for them."""
    interrupts.cancel_on(signal.SIGTERM, signal.SIGHUP)
    engine = choose_engine()
    model = MemoryModel(counts=make_counts(engine.native_library))
    learner = make_autolearner(settings, model, model) if settings.autolearn else None
    spam_filter = make_filter(
        settings,
        model,
        model,
        learner,
        wrap_tokenizer=CachingTokenizer,
        uses_automatic=learner is not None,
        engine=engine,
    )
    implicit_ham = ImplicitHamLearner(spam_filter.parts, spam_filter.policy) if learner else None
    with tqdm(stream.messages, total=stream.count, unit=" messages", disable=not sys.stderr.isatty()) as bar:
        reader = make_message_reader(settings)
        result = await evaluate(spam_filter, bar, evaluation_options, reader, learner, implicit_ham)
    return result, await list_suspects(spam_filter, result.rows) if options.suspects else None


def _write_outputs(
    options: argparse.Namespace,
    result: EvaluationResult,
    measured: EvaluationReport,
    suspects: list[SuspectRow] | None,
) -> None:
    if options.scores:
        with (
            translate_write_errors(options.scores),
            options.scores.open("w", encoding="utf-8") as file,
        ):
            report.write_scores(file, result.rows)
    if suspects is not None:
        with (
            translate_write_errors(options.suspects),
            options.suspects.open("w", encoding="utf-8") as file,
        ):
            write_suspects(file, suspects)
