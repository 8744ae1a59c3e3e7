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
from nbstream.cli.terminal import complain, printable

if TYPE_CHECKING:
    from nbstream.bayes.counts import Counts


@dataclass(frozen=True, slots=True)
class _Line:
    """A token, its log-ratio in nats, and how often it was learned, by the weight of the messages.

    With a half-life by the weight that is left of theirs now.
    """

    token: str
    log_ratio: float
    ham: float
    spam: float


def run(options: argparse.Namespace) -> int:
    """Print one line a token, the loudest first; ``StoreUnavailable`` (75) when Redis is away."""
    return interrupts.run(_run(options))


async def _run(options: argparse.Namespace) -> int:
    settings = config.load(config.find_config(options.config))
    chosen = assembly.event_models(settings.model.event_models).multinomial
    async with assembly.one_shot(settings) as (_, model):
        counts, unit = await model.counts(), model.half_life.unit(time.time())
    lines = _top(counts, CLASSES.index(options.label), options.k, chosen or multinomial.Params(), unit)
    if not counts.totals.vocabulary:
        complain(f"model {settings.model.name!r} knows no tokens yet")
    elif not options.json:
        print(f"{'log-ratio':>9} {'ham':>12} {'spam':>12}  token")
    for line in lines:
        print(json.dumps(asdict(line)) if options.json else _text(line))
    return 0


def _top(counts: Counts, column: int, k: int, params: multinomial.Params, unit: float) -> list[_Line]:
    """The ``k`` tokens with the largest ln P(token | this class) - ln P(token | the other), then by name."""
    tokens, vocabulary = counts.tokens(), counts.vocabulary()
    rows = multinomial.log_probabilities(vocabulary, counts.totals, params, unit)
    ratios = (rows[:, column] - rows[:, 1 - column]).tolist()
    top = nsmallest(k, range(len(tokens)), key=lambda row: (-ratios[row], tokens[row]))
    return [
        _Line(tokens[row].decode("utf-8", "replace"), ratios[row], *(vocabulary[row] / unit).tolist())
        for row in top
    ]


def _text(line: _Line) -> str:
    return f"{line.log_ratio:+9.2f} {line.ham:12.3f} {line.spam:12.3f}  {printable(line.token)}"
