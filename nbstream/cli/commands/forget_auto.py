"""``nbstream forget-auto``: drop all that was learned without people.

Rules: without ``--yes`` nothing is written; what people taught is never touched. Daemons may run; an interrupted
run may be repeated.
"""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from nbstream.bayes.counts import CLASSES
from nbstream.cli import interrupts
from nbstream.daemon import config
from nbstream.daemon.assembly.store import make_model, open_running_redis

if TYPE_CHECKING:
    from nbstream.bayes.counts import Totals


def run(options: argparse.Namespace) -> int:
    """Print what is or would be dropped; ``StoreUnavailable`` (75) when Redis is away."""
    return interrupts.run_interruptible(_run(options))


async def _run(options: argparse.Namespace) -> int:
    settings = config.load_settings(config.find_config_file(options.config))
    async with open_running_redis(settings) as clients:
        model = make_model(settings, clients.client)
        totals = await model.forget_automatic() if options.yes else (await model.stored_totals()).automatic
    print(_render_json(totals, done=options.yes) if options.json else _render_text(totals, done=options.yes))
    return 0


def _render_text(totals: Totals, *, done: bool) -> str:
    counts = ", ".join(f"{count} {label}" for label, count in zip(CLASSES, totals.messages, strict=True))
    what = f"{counts} learned without people, {totals.vocabulary_size} tokens"
    return f"dropped: {what}" if done else f"would be dropped: {what}\nnothing was changed; --yes does it"


def _render_json(totals: Totals, *, done: bool) -> str:
    dropped = dict(zip(CLASSES, totals.messages, strict=True))
    return json.dumps({"done": done, "dropped": dropped, "tokens": totals.vocabulary_size})
