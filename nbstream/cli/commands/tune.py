"""``nbstream tune``: what other thresholds would have done to the mail that was labelled last.

Rules: nothing is scored, learned or changed; all is read from the first scores that the model remembers. The
present policy is that of the configuration, the other one that of ``--with``, of which only the verdict section
counts.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from typing import TYPE_CHECKING

from nbstream import config
from nbstream.assembly.filter import open_one_shot_filter
from nbstream.assembly.policy import make_policy
from nbstream.cli import interrupts, standard_streams
from nbstream.cli.terminal import print_error, printable
from nbstream.errors import ConfigError
from nbstream.evaluation import threshold_choices, threshold_report
from nbstream.policy.verdict import ModelState

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from nbstream.config import Settings
    from nbstream.evaluation.threshold_choices import TuningResult
    from nbstream.policy.first_scores import FirstScores

_NAME_LENGTH = 24


def run(options: argparse.Namespace) -> int:
    """Print the table and the answers, and draw them; ``StoreUnavailable`` (75) when Redis is away."""
    settings = config.load_settings(config.find_config_file(options.config))
    other = None
    if options.other:
        name = printable(options.other.name)[-_NAME_LENGTH:]
        other = f"with {name}", make_policy(config.load_settings(options.other))
    standard_streams.check_writable([options.plot] if options.plot else [])
    draw = _plot_function() if options.plot else None
    first_scores, learned = interrupts.run_interruptible(_read_first_scores(settings))
    learned_at = first_scores.learned_at(ModelState(learned, settings.model.min_learned.model_dump()))
    tuning = threshold_choices.compare_thresholds(first_scores, make_policy(settings), other, learned_at)
    for warning in threshold_report.sample_warnings(tuning, settings.model.name):
        print_error(warning)
    if options.json:
        print(threshold_report.render_json(tuning, settings.model.name))
    else:
        print(_render_text(tuning, settings.model.name))
    if draw:
        with standard_streams.translate_write_errors(options.plot):
            draw(options.plot, tuning)
    return 0


async def _read_first_scores(settings: Settings) -> tuple[FirstScores, Mapping[str, int]]:
    """Return the first scores, and how many messages of each class are learned."""
    async with open_one_shot_filter(settings) as (_, model):
        return await model.first_scores(), (await model.totals()).messages_by_label()


def _render_text(tuning: TuningResult, model: str) -> str:
    terminal = sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if terminal else None
    bold = terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return threshold_report.render_text(tuning, model, width=width, bold=bold)


def _plot_function() -> Callable[[Path, TuningResult], None]:
    """Return the function that draws the plot, which is imported only for ``--plot``."""
    try:
        from nbstream.evaluation.plots import write_tuning_plot  # noqa: PLC0415 - matplotlib is an extra
    except ModuleNotFoundError as error:
        raise ConfigError("--plot needs matplotlib: pip install 'nbstream[plot]'") from error
    return write_tuning_plot
