"""``nbstream evaluate``: score a labelled stream, learning as it goes, and say how good that was.

Rules: counts live in memory, or in a model of their own that is removed at the end; what the daemon learned is
never touched. A place that cannot be written to is found before the run, so that no result is lost by it. SIGTERM,
and SIGHUP of a terminal that is closed, end a run as Ctrl-C does.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tqdm import tqdm

from nbstream import config
from nbstream.assembly import assembly
from nbstream.cli import interrupts, message_files, output_files
from nbstream.cli.terminal import complain, note
from nbstream.config.values import EMBEDDED, has_password, read_redis_url
from nbstream.errors import ConfigError, InputError
from nbstream.evaluation import report, streams
from nbstream.evaluation.run import Params, RememberingTokenizer, Result, Tally, evaluate
from nbstream.filter import AutoLayer
from nbstream.store.model.memory_model import MemoryModel

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic import SecretStr

    from nbstream.config import Settings
    from nbstream.evaluation.report import Columns, Report
    from nbstream.evaluation.streams import Stream
    from nbstream.policy.verdict import Thresholds
    from nbstream.store.model.autolearn_layer import Layer
    from nbstream.store.model.model import Model

    Draw = Callable[[Path, Columns, int, Thresholds], None]


def run(options: argparse.Namespace) -> int:
    """Print the measures, and write what was asked for; 66 when a path cannot be read, of a pair the rest is."""
    _check_usage(options)
    file = config.find_config(options.config)
    settings = config.load(file)
    output_files.check_writable([path for path in (_json_file(options), options.scores, options.plot) if path])
    draw = _draw() if options.plot else None
    errors: list[InputError] = []
    if options.config is None:
        note(f"configuration: {file or 'the defaults'}")
    stream = _stream(options, errors).first(options.limit)
    params = Params(options.regime, options.label_noise, options.seed)
    result, tally = interrupts.run(_run(settings, options.redis, stream, params))
    measured = report.report(
        result, tally, params, options.skip, options.limit, settings.verdict.max_false_positive_rate
    )
    print(measured.json() if options.json == message_files.STANDARD_INPUT else measured.text())
    _write(options, result, measured)
    if draw:
        columns = report.Columns.of(result.rows[options.skip :])
        with output_files.writing(options.plot):
            draw(options.plot, columns, options.skip, result.thresholds)
    for error in errors:
        complain(error)
    return errors[0].exit_code if errors else 0


def _check_usage(options: argparse.Namespace) -> None:
    pair = (options.spam, options.ham)
    if all(pair) == bool(options.index) or any(pair) != all(pair):
        options.wrong_usage("give an INDEX, or both --spam and --ham")
    if any(message_files.STANDARD_INPUT in (paths or []) for paths in pair):
        options.wrong_usage("--spam and --ham are read twice, standard input cannot be")


def _stream(options: argparse.Namespace, errors: list[InputError]) -> Stream:
    if options.index:
        stream = streams.read(options.index)
        note(f"{options.index}: read as {stream.what}")
        return stream
    heaps = {"spam": options.spam, "ham": options.ham}
    return streams.merged([(label, _count(paths), _raw(paths, errors)) for label, paths in heaps.items()])


def _count(paths: Sequence[str]) -> int:
    known = message_files.count(paths)
    return sum(1 for _ in message_files.read(paths, [])) if known is None else known


def _raw(paths: Sequence[str], errors: list[InputError]) -> Iterator[bytes]:
    return (source.raw for source in message_files.read(paths, errors))


async def _run(settings: Settings, url: str | None, stream: Stream, params: Params) -> tuple[Result, Tally]:
    _cancel_on(signal.SIGTERM, signal.SIGHUP)
    async with _model(settings, url) as model:
        tally, layer, learner = Tally(model), None, None
        if settings.autolearn:
            beside = await _beside(settings, model)
            layer = AutoLayer(beside, beside)
            learner = assembly.autolearner(settings, tally, model, layer)
        spam_filter = assembly.spam_filter(
            settings, tally, model, learner, make_tokenizer=RememberingTokenizer, auto=layer
        )
        with tqdm(stream.messages, total=stream.count, unit=" messages", disable=not sys.stderr.isatty()) as bar:
            return await evaluate(spam_filter, bar, params, assembly.limits(settings), learner), tally


async def _beside(settings: Settings, model: MemoryModel | Model) -> MemoryModel | Layer:
    """The layer that is learned without people, in the same place as ``model``, and removed with it."""
    if isinstance(model, MemoryModel):
        return MemoryModel()
    layer = assembly.auto_model(settings, model.client, model.keys.model)
    await layer.open()
    return layer


def _cancel_on(*signals: signal.Signals) -> None:
    """Cancel this task on each of ``signals`` that is not ignored: else they would leave the model in Redis."""
    task = asyncio.current_task()
    assert task is not None
    for each in signals:
        if signal.getsignal(each) is not signal.SIG_IGN:  # as nohup has it
            asyncio.get_running_loop().add_signal_handler(each, task.cancel)


@asynccontextmanager
async def _model(settings: Settings, url: str | None) -> AsyncIterator[MemoryModel | Model]:
    if url is None:
        yield MemoryModel(first_scores=settings.memory.first_scores)
        return
    try:
        redis = _redis(settings, read_redis_url(url))
    except ValueError as error:
        raise ConfigError(f"--redis: {error}") from error
    async with assembly.temporary(settings.model_copy(update={"redis": redis}), "evaluate") as model:
        yield model


def _redis(settings: Settings, url: SecretStr) -> config.Redis:
    """The Redis at another URL, with the password of the configuration unless the URL has one or needs none."""
    needs_none = url.get_secret_value() == EMBEDDED or has_password(url)
    password_file = None if needs_none else settings.redis.password_file
    return config.Redis(url=url, password_file=password_file, timeout_seconds=settings.redis.timeout_seconds)


def _draw() -> Draw:
    """What draws the plot, imported only when it is asked for."""
    try:
        from nbstream.evaluation.run_plot import draw  # noqa: PLC0415 - matplotlib is an extra
    except ModuleNotFoundError as error:
        raise ConfigError("--plot needs matplotlib: pip install 'nbstream[plot]'") from error
    return draw


def _json_file(options: argparse.Namespace) -> Path | None:
    return Path(options.json) if options.json and options.json != message_files.STANDARD_INPUT else None


def _write(options: argparse.Namespace, result: Result, measured: Report) -> None:
    json_file = _json_file(options)
    if json_file:
        with output_files.writing(json_file):
            json_file.write_text(measured.json() + "\n", encoding="utf-8")
    if options.scores:
        with output_files.writing(options.scores), options.scores.open("w", encoding="utf-8") as file:
            report.write_scores(file, result.rows)
