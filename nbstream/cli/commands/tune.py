"""``nbstream tune``: what other thresholds would have done to the mail that was labelled last.

Rules: nothing is scored, learned or changed; all is read from the scores that are kept with the model. The present
policy is that of the configuration, the other one that of ``--with``, of which only the verdict section counts.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from typing import TYPE_CHECKING

from nbstream import config
from nbstream.assembly import assembly
from nbstream.cli import interrupts, output_files
from nbstream.cli.terminal import complain, printable
from nbstream.errors import ConfigError
from nbstream.evaluation import threshold_choices, threshold_report

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from nbstream.config import Settings
    from nbstream.evaluation.threshold_choices import Tuning
    from nbstream.policy.first_scores import FirstScores

_NAME_LENGTH = 24


def run(options: argparse.Namespace) -> int:
    """Print table and answers, and draw; ``StoreUnavailable`` (75) when Redis is away."""
    settings = config.load(config.find_config(options.config))
    other = None
    if options.other:
        name = printable(options.other.name)[-_NAME_LENGTH:]
        other = f"with {name}", assembly.policy(config.load(options.other))
    output_files.check_writable([options.plot] if options.plot else [])
    draw = _draw() if options.plot else None
    first_scores = interrupts.run(_first_scores(settings))
    found = threshold_choices.tuning(first_scores, assembly.policy(settings), other)
    for warning in _warnings(found, settings.model.name):
        complain(warning)
    if options.json:
        print(threshold_report.as_json(found, settings.model.name))
    else:
        print(_text(found, settings.model.name))
    if draw:
        with output_files.writing(options.plot):
            draw(options.plot, found)
    return 0


async def _first_scores(settings: Settings) -> FirstScores:
    async with assembly.one_shot(settings) as (_, model):
        return await model.first_scores()


def _text(found: Tuning, model: str) -> str:
    terminal = sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if terminal else None
    bold = terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return threshold_report.text(found, model, width=width, bold=bold)


def _warnings(found: Tuning, model: str) -> Iterator[str]:
    known = found.present.rates
    absent = [label for label, count in (("ham", known.ham), ("spam", known.spam)) if not count]
    if absent:
        missing = " and no ".join(absent)
        yield f"model {model!r} has no {missing} whose first score is known: label some as it comes in"
    if found.biased:
        yield threshold_report.BIASED


def _draw() -> Callable[[Path, Tuning], None]:
    """What draws the plot, imported only when it is asked for."""
    try:
        from nbstream.evaluation.tuning_plot import draw  # noqa: PLC0415 - matplotlib is an extra
    except ModuleNotFoundError as error:
        raise ConfigError("--plot needs matplotlib: pip install 'nbstream[plot]'") from error
    return draw
