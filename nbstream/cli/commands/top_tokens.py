"""``nbstream top-tokens``: the tokens that speak loudest for a class.

Rules: the log-ratio of a token is the vote that it has in a check as a clue of the multinomial model, smoothed as
the configuration says; all counts are read, which takes some seconds for a million tokens.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict, dataclass
from heapq import nsmallest
from typing import TYPE_CHECKING

from nbstream import config
from nbstream.assembly import assembly
from nbstream.bayes import multinomial
from nbstream.bayes.counts import CLASSES
from nbstream.cli import interrupts
from nbstream.cli.terminal import print_error, printable

if TYPE_CHECKING:
    from nbstream.bayes.counts import ClassCounts


@dataclass(frozen=True, slots=True)
class _TokenLine:
    """A token, its log-ratio in nats, and how often it was learned, by the weight of the messages.

    With a half-life by the weight that is left of theirs now.
    """

    token: str
    log_ratio: float
    ham: float
    spam: float


def run(options: argparse.Namespace) -> int:
    """Print one line a token, the loudest first; ``StoreUnavailable`` (75) when Redis is away."""
    return interrupts.run_interruptible(_run(options))


async def _run(options: argparse.Namespace) -> int:
    settings = config.load_settings(config.find_config_file(options.config))
    chosen = assembly.make_event_models(settings.model.event_models).multinomial
    async with assembly.open_one_shot_filter(settings) as (_, model):
        counts, unit = await model.counts(), model.half_life.unit(time.time())
    lines = _top_tokens(
        counts, CLASSES.index(options.label), options.k, chosen or multinomial.MultinomialOptions(), unit
    )
    if not counts.totals.vocabulary_size:
        print_error(f"model {settings.model.name!r} knows no tokens yet")
    elif not options.json:
        print(f"{'log-ratio':>9} {'ham':>12} {'spam':>12}  token")
    for line in lines:
        print(json.dumps(asdict(line)) if options.json else _render_text(line))
    return 0


def _top_tokens(
    counts: ClassCounts, column: int, k: int, params: multinomial.MultinomialOptions, unit: float
) -> list[_TokenLine]:
    """The ``k`` tokens with the largest ln P(token | this class) - ln P(token | the other), then by name."""
    tokens, vocabulary = counts.tokens(), counts.vocabulary_counts()
    rows = multinomial.token_log_probabilities(vocabulary, counts.totals, params, unit)
    ratios = (rows[:, column] - rows[:, 1 - column]).tolist()
    top = nsmallest(k, range(len(tokens)), key=lambda row: (-ratios[row], tokens[row]))
    return [
        _TokenLine(tokens[row].decode("utf-8", "replace"), ratios[row], *(vocabulary[row] / unit).tolist())
        for row in top
    ]


def _render_text(line: _TokenLine) -> str:
    return f"{line.log_ratio:+9.2f} {line.ham:12.3f} {line.spam:12.3f}  {printable(line.token)}"
