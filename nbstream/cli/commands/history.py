"""``nbstream history`` and ``nbstream undo``: show who taught what, when, and its effect, and take it back.

Rules: one line for each change, the newest last. Since the history is read from its newest change, the lines are
collected before they are printed: 100,000 take some 20 MB. Without ``--yes`` nothing is undone, and each change is
printed with what would become of it. A change that cannot be taken back is printed with its reason, and stands in
the way of no other. The message that was changed last comes first, and within a message its newest change. An
interrupted run may be repeated.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from nbstream.daemon import config
from nbstream.daemon.assembly.parts import open_one_shot_filter
from nbstream.errors import InputError
from nbstream.filter.undo import selected_changes, undo_changes
from nbstream.policy.verdict import shorten_probability
from nbstream.server.api_json import iso_time
from nbstream.store.model.history import HistorySelection
from nbstream.system_users import current_user
from nbstream.terminal import local_time, print_error

if TYPE_CHECKING:
    from nbstream.daemon.config import Settings
    from nbstream.filter import Filter
    from nbstream.filter.undo import ChangeOutcome
    from nbstream.store.model.history import Assessment, HistoryChange
    from nbstream.store.model.model import Model
    from nbstream.terminal import Output


async def run(options: argparse.Namespace, output: Output) -> None:
    """Print the changes, or take them back; ``StoreUnavailable`` (75) when Redis is away."""
    settings = config.load_settings(config.find_config_file(options.config))
    selection = HistorySelection(
        options.since or 0.0, options.until, options.actor, options.label, options.id, options.source
    )
    if options.command == "undo":
        await _undo(settings, selection, options, output)
        return
    changes: list[tuple[str, dict[str, Any]]] = []
    async with open_one_shot_filter(settings, user=options.user) as (spam_filter, model):
        name = name_of_model(settings, spam_filter, options.user)
        async for change in model.history.changes(selection.since):
            if options.limit is not None and len(changes) >= options.limit:
                break
            if change in selection:
                changes.append((history_change_to_text(change), history_change_to_json(change)))
        if not changes:
            await _check_label(options, settings, model)
    for text, members in reversed(changes):
        output.show(text, members)
    if not changes:
        which = "such " if selection != HistorySelection() else ""
        print_error(f"no {which}change in the history of model {name!r}")


async def _check_label(options: argparse.Namespace, settings: Settings, model: Model) -> None:
    """Refuse a label that is no class, unless the history has it from former times."""
    if options.label in {None, *settings.model.classes}:
        return
    selection = HistorySelection(label=options.label)
    async for change in model.history.changes(selection.since):
        if change in selection:
            return
    options.wrong_usage(
        f"no change has the label {options.label}, and the classes are {', '.join(settings.model.classes)} "
        "(model.classes)"
    )


def name_of_model(settings: Settings, spam_filter: Filter, user: str | None) -> str:
    """Return the name of the model of the filter. Raises ``InputError`` for a ``user`` who has no own model."""
    if user is not None and not spam_filter.own_model:
        raise InputError(f"{user} has no own model by the rules of models")
    return spam_filter.own_model or settings.model.name


def history_change_to_json(change: HistoryChange) -> dict[str, Any]:
    """Return the members of a change's JSON object."""
    return {
        "time": iso_time(change.at),
        "id": change.message_key,
        "change": change.description,
        "label": change.class_name,
        "former": change.former_class_name,
        "source": change.note.source,
        "actor": change.note.actor,
        "before": _assessment_to_json(change.note.before),
        "after": _assessment_to_json(change.note.after),
    }


def history_change_to_text(change: HistoryChange) -> str:
    """Return a change as one line."""
    note = change.note
    assessments = (
        f"{shorten_probability(note.before.probability, 4)} {note.before.verdict} -> "
        f"{shorten_probability(note.after.probability, 4)} {note.after.verdict}"
    )
    who = f"{note.source} {note.actor}".rstrip()
    return f"{local_time(change.at)}  {change.message_key}  {change.description}  {who}  {assessments}"


def _assessment_to_json(assessment: Assessment) -> dict[str, Any]:
    return {"probability": assessment.probability, "verdict": assessment.verdict}


async def _undo(
    settings: Settings, selection: HistorySelection, options: argparse.Namespace, output: Output
) -> None:
    if options.since is None and options.id is None:
        options.wrong_usage("one of --since and --id is needed")

    def print_outcome(outcome: ChangeOutcome) -> None:  # at once: what an interrupted run has done can be read
        output.show(_describe_outcome(outcome), _outcome_to_json(outcome))

    async with open_one_shot_filter(settings, user=options.user) as (spam_filter, model):
        name = name_of_model(settings, spam_filter, options.user)
        changes = await selected_changes(model, selection)
        if not changes:
            await _check_label(options, settings, model)
            print_error(f"no such change in the history of model {name!r}")
            return
        counts = await undo_changes(model, changes, print_outcome, current_user() if options.yes else None)
    lines = [f"changes: {', '.join(f'{count} {outcome}' for outcome, count in sorted(counts.items()))}"]
    if not options.yes:
        lines.append("nothing was changed; --yes does it")
    output.show(lines, {"done": options.yes, "changes": counts})


def _describe_outcome(outcome: ChangeOutcome) -> str:
    change = outcome.change
    who = f"{change.note.source} {change.note.actor}".rstrip()
    result = f"{outcome.outcome}: {outcome.why}" if outcome.why else outcome.outcome
    return f"{local_time(change.at)}  {outcome.change.message_key}  {change.description}  {who}  {result}"


def _outcome_to_json(outcome: ChangeOutcome) -> dict[str, object]:
    change = outcome.change
    return {
        "time": iso_time(change.at),
        "id": outcome.change.message_key,
        "change": change.description,
        "source": change.note.source,
        "actor": change.note.actor,
        "outcome": outcome.outcome,
        "why": outcome.why or None,
    }
