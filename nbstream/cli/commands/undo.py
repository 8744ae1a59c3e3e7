"""``nbstream undo``: take back what was taught, as the history says it.

Rules: without ``--yes`` nothing is written, and each change is printed with what would become of it. A change that
cannot be taken back is printed with its reason, and stands in the way of no other. The message that was changed
last comes first, and within a message its newest change. An interrupted run may be repeated.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from nbstream import config
from nbstream.assembly.filter import open_one_shot_filter
from nbstream.bayes.counts import CLASSES
from nbstream.cli import interrupts
from nbstream.cli.commands.history import name_of_model, read_selection
from nbstream.cli.terminal import local_time, print_error, print_note, printable
from nbstream.filter.undo import MAX_PREVIEWED, preview_undo, undo_changes
from nbstream.store.undo import selected_changes
from nbstream.system_users import current_user
from nbstream.wire.api_json import iso_time

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from nbstream.bayes.counts import Totals
    from nbstream.errors import StoreIncompatible
    from nbstream.filter import Filter
    from nbstream.filter.scorer import Scorer
    from nbstream.filter.undo import ChangeOutcome, HypotheticalCounts, UndoSummary
    from nbstream.store.model.model import Model
    from nbstream.store.undo import UndoableChange


def run(options: argparse.Namespace) -> int:
    """Print what is or would be taken back; ``StoreUnavailable`` (75) when Redis is away."""
    if options.since is None and options.id is None:
        options.wrong_usage("one of --since and --id is needed")
    return interrupts.run_interruptible(_run(options))


async def _run(options: argparse.Namespace) -> int:
    settings = config.load_settings(config.find_config_file(options.config))
    selection = read_selection(options)

    def print_outcome(outcome: ChangeOutcome) -> None:  # at once: what an interrupted run has done can be read
        print(_outcome_to_json(outcome) if options.json else _outcome_to_text(outcome))

    async with open_one_shot_filter(settings, user=options.user) as (spam_filter, model):
        name = name_of_model(settings, spam_filter, options.user)
        changes = await selected_changes(model, selection)
        if not changes:
            print_error(f"no such change in the history of model {name!r}")
            return 0
        if options.yes:
            summary = await undo_changes(model, changes, current_user(), print_outcome)
        else:
            summary = await _preview(spam_filter, model, changes, print_outcome)
    print(
        _summary_to_json(summary, done=options.yes)
        if options.json
        else _summary_to_text(summary, done=options.yes)
    )
    return 0


async def _preview(
    spam_filter: Filter,
    model: Model,
    changes: Mapping[str, Sequence[UndoableChange]],
    report: Callable[[ChangeOutcome], object],
) -> UndoSummary:
    unreadable: list[StoreIncompatible] = []
    parts, memory = spam_filter.parts, spam_filter.parts.checked_messages
    assert memory is not None
    # What is remembered is the mail of all users: what an own model would say of it tells nothing.
    messages = memory.newest(0 if spam_filter.own_model else MAX_PREVIEWED, unreadable.append)

    def scorer(counts: HypotheticalCounts) -> Scorer:
        return replace(parts, counts=counts).make_scorer(spam_filter.policy)

    summary = await preview_undo(model, changes, messages, scorer, report)
    if unreadable:
        print_note(f"nbstream: {len(unreadable)} remembered messages are left out: {unreadable[0]}")
    return summary


def _outcome_to_text(outcome: ChangeOutcome) -> str:
    change = outcome.change
    who = f"{change.note.source} {change.note.actor}".rstrip()
    result = f"{outcome.outcome}: {outcome.why}" if outcome.why else outcome.outcome
    return printable(f"{local_time(change.at)}  {outcome.message_key}  {change.description}  {who}  {result}")


def _outcome_to_json(outcome: ChangeOutcome) -> str:
    change = outcome.change
    return json.dumps(
        {
            "time": iso_time(change.at),
            "id": outcome.message_key,
            "change": change.description,
            "source": change.note.source,
            "actor": change.note.actor,
            "outcome": outcome.outcome,
            "why": outcome.why or None,
        }
    )


def _summary_to_text(summary: UndoSummary, *, done: bool) -> str:
    counts = ", ".join(f"{count} {outcome}" for outcome, count in sorted(summary.outcomes.items()))
    knew, knows = ("knew", "now") if done else ("knows", "then")
    lines = [
        f"changes: {counts}; the model {knew} {_describe_totals(summary.before)}, "
        f"{knows} {_describe_totals(summary.after)}"
    ]
    if summary.verdicts and summary.verdicts.messages:
        changed = summary.verdicts.changes.items()
        others = ", ".join(f"{count} {was} -> {would}" for (was, would), count in sorted(changed))
        lines.append(
            f"verdicts: of the last {summary.verdicts.messages} messages {others or 'none would be another'}"
        )
    if not done:
        lines.append("nothing was changed; --yes does it")
    return "\n".join(lines)


def _summary_to_json(summary: UndoSummary, *, done: bool) -> str:
    members: dict[str, Any] = {"done": done, "changes": dict(summary.outcomes)}
    for name, totals in (("before", summary.before), ("after", summary.after)):
        members[name] = dict(zip(CLASSES, totals.messages, strict=True))
    if summary.verdicts:
        members["checked"] = summary.verdicts.messages
        members["verdicts"] = [
            {"was": was, "would": would, "messages": count}
            for (was, would), count in sorted(summary.verdicts.changes.items())
        ]
    return json.dumps(members)


def _describe_totals(totals: Totals) -> str:
    return ", ".join(f"{count} {label}" for label, count in zip(CLASSES, totals.messages, strict=True))
