"""``nbstream top-tokens``: the tokens that speak loudest for a class.

Rules: the log-ratio of a token is the vote that it has in a check as a clue of the multinomial model, smoothed as
the configuration says, and has the same sign as there: positive speaks for spam, whichever class is listed. All
counts are read, which takes some seconds for a million tokens.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict, dataclass
from heapq import nsmallest
from typing import TYPE_CHECKING

from nbstream import config
from nbstream.assembly.filter import make_event_models, open_one_shot_filter
from nbstream.bayes import multinomial
from nbstream.bayes.counts import CLASSES
from nbstream.cli import interrupts
from nbstream.cli.clue_table import LOG_RATIO_HEAD
from nbstream.cli.terminal import print_error, printable

if TYPE_CHECKING:
    from nbstream.bayes.counts import ClassCounts


@dataclass(frozen=True, slots=True)
class _TokenLine:
    """A token, its log-ratio in nats (positive speaks for spam), and how often each class had it.

    The messages are counted by their weight; with a half-life, by what is left of it now.
    """

    token: str
    log_ratio: float
    ham: float
    spam: float


def run(options: argparse.Namespace) -> int:
    """Print one line for each token, the loudest first; ``StoreUnavailable`` (75) when Redis is away."""
    return interrupts.run_interruptible(_run(options))


async def _run(options: argparse.Namespace) -> int:
    settings = config.load_settings(config.find_config_file(options.config))
    event_models = make_event_models(settings.model.event_models)
    async with open_one_shot_filter(settings) as (_, model):
        counts, unit = await model.counts(), model.half_life.unit(time.time())
    lines = _top_tokens(
        counts, options.label, options.k, event_models.multinomial or multinomial.MultinomialOptions(), unit
    )
    if not counts.totals.vocabulary_size:
        print_error(f"model {settings.model.name!r} knows no tokens yet")
    elif not options.json:
        print(f"{LOG_RATIO_HEAD} {'ham':>12} {'spam':>12}  token")
    for line in lines:
        print(json.dumps(asdict(line)) if options.json else _render_text(line))
    return 0


def _top_tokens(
    counts: ClassCounts, label: str, k: int, options: multinomial.MultinomialOptions, unit: float
) -> list[_TokenLine]:
    """Return the ``k`` tokens that speak loudest for a class, and equally loud ones by name.

    Their log-ratios are ln P(token | spam) - ln P(token | ham) for both classes.
    """
    tokens, vocabulary = counts.tokens(), counts.vocabulary_counts()
    ham, spam = map(CLASSES.index, ("ham", "spam"))
    rows = multinomial.token_log_probabilities(vocabulary, counts.totals, options, unit)
    log_ratios = (rows[:, spam] - rows[:, ham]).tolist()
    sign = 1 if label == "spam" else -1
    top = nsmallest(k, range(len(tokens)), key=lambda row: (-sign * log_ratios[row], tokens[row]))
    return [
        _TokenLine(tokens[row].decode("utf-8", "replace"), log_ratios[row], *(vocabulary[row] / unit).tolist())
        for row in top
    ]


def _render_text(line: _TokenLine) -> str:
    return (
        f"{line.log_ratio:+{len(LOG_RATIO_HEAD)}.2f} {line.ham:12.3f} {line.spam:12.3f}  {printable(line.token)}"
    )
