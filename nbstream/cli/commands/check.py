"""``nbstream check``: score messages and say why."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from nbstream.cli import message_files
from nbstream.cli.exit_codes import EX_SPAM
from nbstream.daemon import config
from nbstream.daemon.assembly.parts import open_one_shot_filter
from nbstream.daemon.assembly.policy import make_message_reader
from nbstream.filter.lesson_text import describe_kind
from nbstream.server import api_json

if TYPE_CHECKING:
    from nbstream.filter import Check
    from nbstream.terminal import Output

_SHOWN_CLUES = 5


async def run(options: argparse.Namespace, output: Output) -> int:
    """Print a line for each message; 0 when none is spam, 1 when one is, 66 when a path cannot be read."""
    settings = config.load_settings(config.find_config_file(options.config))
    spam = 0
    async with open_one_shot_filter(settings, user=options.user, reads_messages=True) as (spam_filter, _):
        for source in message_files.read_messages(options.paths, output.errors):
            check = await spam_filter.check(make_message_reader(settings).read_incoming(source.raw))
            spam += check.verdict.is_spam
            output.show(_describe(source.name, check), _members(source.name, check))
    return EX_SPAM if spam else 0


def _members(name: str, check: Check) -> dict[str, object]:
    return {
        "path": name,
        "id": check.id,
        "verdict": str(check.verdict),
        "probability": check.probability,
        "score": check.score,
        "reason": check.reason,
        "clues": [
            {"token": clue.token.decode("utf-8", "replace"), "log_ratio": clue.log_ratio} for clue in check.clues
        ],
        **api_json.kind_to_json(check.kind),
    }


def _describe(name: str, check: Check) -> list[str]:
    clues = "  ".join(
        f"{clue.token.decode('utf-8', 'replace')} {clue.log_ratio:+.1f}" for clue in check.clues[:_SHOWN_CLUES]
    )
    kind = f"  {describe_kind(check.kind)}" if check.kind else ""
    line = f"{check.verdict:6} {check.probability:8.4f}  {name}  ({check.reason}){kind}"
    return [line, *([f"{'':17}{clues}"] if clues else [])]
