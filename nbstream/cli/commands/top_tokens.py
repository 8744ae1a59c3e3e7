"""``nbstream top-tokens``: the tokens that speak loudest for a class.

Rules: all counts are read, which takes some seconds for a million tokens.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict

from nbstream.bayes.clues import NamedCounts, TokenVote, top_tokens
from nbstream.cli import interrupts
from nbstream.cli.commands.explain import LOG_RATIO_HEAD, WHY_NO_WORDS
from nbstream.cli.terminal import print_error, print_note, printable
from nbstream.daemon import config
from nbstream.daemon.assembly.parts import open_one_shot_filter


def run(options: argparse.Namespace) -> int:
    """Print one line for each token, the loudest first; ``StoreUnavailable`` (75) when Redis is away."""
    return interrupts.run_interruptible(_run(options))


async def _run(options: argparse.Namespace) -> int:
    settings = config.load_settings(config.find_config_file(options.config))
    async with open_one_shot_filter(settings) as (_, model):
        counts = await model.counts()
    lines = top_tokens(NamedCounts(*counts.snapshot(), counts.totals), options.label, options.k)
    if not counts.totals.vocabulary_size:
        print_error(f"model {settings.model.name!r} knows no tokens yet")
    elif not options.json:
        print(f"{LOG_RATIO_HEAD} {'ham':>12} {'spam':>12}  token")
    if settings.model.private_tokens:
        print_note(f"nbstream: {WHY_NO_WORDS}; nobody can read them, and explain shows the words of a file")
    for line in lines:
        print(json.dumps(asdict(line)) if options.json else _render_text(line))
    return 0


def _render_text(line: TokenVote) -> str:
    return (
        f"{line.log_ratio:+{len(LOG_RATIO_HEAD)}.2f} {line.ham:12.3f} {line.spam:12.3f}  {printable(line.token)}"
    )
