"""``nbstream undo``: take back what was taught, as the history says it.

Rules: without ``--yes`` nothing is written, and each change is printed with what would become of it. A change that
cannot be taken back is printed with its reason, and stands in the way of no other. The message that was changed
last comes first, and within a message its newest change. An interrupted run may be repeated.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from nbstream.cli.commands.history import name_of_model, read_selection
from nbstream.daemon import config
from nbstream.daemon.assembly.parts import open_one_shot_filter
from nbstream.filter.undo import selected_changes, undo_changes
from nbstream.server.api_json import iso_time
from nbstream.system_users import current_user
from nbstream.terminal import local_time, print_error

if TYPE_CHECKING:
    from nbstream.filter.undo import ChangeOutcome
    from nbstream.terminal import Output


async def run(options: argparse.Namespace, output: Output) -> None:
    """Print what is or would be taken back; ``StoreUnavailable`` (75) when Redis is away."""
    if options.since is None and options.id is None:
        options.wrong_usage("one of --since and --id is needed")
    settings = config.load_settings(config.find_config_file(options.config))
    selection = read_selection(options)

    def print_outcome(outcome: ChangeOutcome) -> None:  # at once: what an interrupted run has done can be read
        output.show(_describe(outcome), _members(outcome))

    async with open_one_shot_filter(settings, user=options.user) as (spam_filter, model):
        name = name_of_model(settings, spam_filter, options.user)
        changes = await selected_changes(model, selection)
        if not changes:
            print_error(f"no such change in the history of model {name!r}")
            return
        counts = await undo_changes(model, changes, print_outcome, current_user() if options.yes else None)
    lines = [f"changes: {', '.join(f'{count} {outcome}' for outcome, count in sorted(counts.items()))}"]
    if not options.yes:
        lines.append("nothing was changed; --yes does it")
    output.show(lines, {"done": options.yes, "changes": counts})


def _describe(outcome: ChangeOutcome) -> str:
    change = outcome.change
    who = f"{change.note.source} {change.note.actor}".rstrip()
    result = f"{outcome.outcome}: {outcome.why}" if outcome.why else outcome.outcome
    return f"{local_time(change.at)}  {outcome.message_key}  {change.description}  {who}  {result}"


def _members(outcome: ChangeOutcome) -> dict[str, object]:
    change = outcome.change
    return {
        "time": iso_time(change.at),
        "id": outcome.message_key,
        "change": change.description,
        "source": change.note.source,
        "actor": change.note.actor,
        "outcome": outcome.outcome,
        "why": outcome.why or None,
    }
