"""``nbstream undo``: take back what was taught, as the history says it.

Rules: without ``--yes`` nothing is written, and each change is printed with what would become of it. A change that
cannot be taken back is printed with its reason, and stands in the way of no other. The message that was changed
last comes first, and within a message its newest change. An interrupted run may be repeated.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nbstream import config
from nbstream.assembly.filter import make_scorer, open_one_shot_filter
from nbstream.assembly.store import make_autolearn_model, make_recent_messages
from nbstream.bayes.counts import CLASSES
from nbstream.cli import interrupts
from nbstream.cli.actor import current_user
from nbstream.cli.terminal import local_time, print_error, print_note, printable
from nbstream.filter.preview import HypotheticalCounts, Preview, preview_verdicts
from nbstream.store.cancellation import stop_if_cancelled
from nbstream.store.model.history import HistorySelection
from nbstream.store.undo.restoration import apply_restoration, prepare_restoration, selected_changes
from nbstream.wire.explanation_json import iso_time

if TYPE_CHECKING:
    from nbstream.bayes.counts import Totals
    from nbstream.config import Settings
    from nbstream.errors import StoreIncompatible
    from nbstream.store.model.model import Model
    from nbstream.store.undo.plan import UndoableChange
    from nbstream.store.undo.restoration import Restoration

_MAX_PREVIEWED = 1000
"""So many of the messages that were checked last are scored again: a second or two."""


@dataclass(frozen=True, slots=True)
class _ChangeOutcome:
    """What became of one change of a message; ``why`` is empty where it needs no reason."""

    message_key: str
    change: UndoableChange
    outcome: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class _UndoSummary:
    """Changes counted by their outcome, the messages learned before and after, and in a preview the verdicts."""

    outcomes: Mapping[str, int]
    before: Totals
    after: Totals
    verdicts: Preview | None


def run(options: argparse.Namespace) -> int:
    """Print what is or would be taken back; ``StoreUnavailable`` (75) when Redis is away."""
    if options.since is None and options.id is None:
        options.wrong_usage("one of --since and --id is needed")
    return interrupts.run_interruptible(_run(options))


async def _run(options: argparse.Namespace) -> int:
    settings = config.load_settings(config.find_config_file(options.config))
    selection = HistorySelection(options.since or 0.0, options.until, options.actor, options.label, options.id)
    counts: Counter[str] = Counter()
    async with open_one_shot_filter(settings) as (_, model):
        changes = await selected_changes(model, selection)
        if not changes:
            print_error(f"no such change in the history of model {settings.model.name!r}")
            return 0
        before, hypothetical = await model.totals(), None
        if options.yes:
            outcomes = _undo_changes(model, changes)
        else:
            hypothetical = HypotheticalCounts(model)
            outcomes = _preview_changes(model, hypothetical, changes)
        async for outcome in outcomes:  # each is printed at once: what an interrupted run has done can be read
            print(_outcome_to_json(outcome) if options.json else _outcome_to_text(outcome))
            counts[outcome.outcome] += 1
        if hypothetical is None:
            summary = _UndoSummary(counts, before, await model.totals(), None)
        else:
            _, after = await hypothetical.look_up([])
            summary = _UndoSummary(counts, before, after, await _preview_verdicts(settings, model, hypothetical))
    print(
        _summary_to_json(summary, done=options.yes)
        if options.json
        else _summary_to_text(summary, done=options.yes)
    )
    return 0


async def _undo_changes(
    model: Model, changes: Mapping[str, Sequence[UndoableChange]]
) -> AsyncIterator[_ChangeOutcome]:
    """Take the changes back, a message at a time, and yield what became of each."""
    for key, message_changes in changes.items():
        stop_if_cancelled()
        restoration = await prepare_restoration(model, key, message_changes)
        if await apply_restoration(model, restoration, current_user()):
            done = "taken back", ""
        else:
            done = "stays", "changed by others at this very moment"
        for outcome in _change_outcomes(restoration, *done):
            yield outcome


async def _preview_changes(
    model: Model, hypothetical: HypotheticalCounts, changes: Mapping[str, Sequence[UndoableChange]]
) -> AsyncIterator[_ChangeOutcome]:
    """Change only ``hypothetical``, and yield what would become of each change."""
    for key, message_changes in changes.items():
        stop_if_cancelled()
        restoration = await prepare_restoration(model, key, message_changes)
        hypothetical.replace_entry(restoration.current_entry, restoration.restored_entry)
        for outcome in _change_outcomes(restoration, "would be taken back"):
            yield outcome


def _change_outcomes(restoration: Restoration, done: str, why: str = "") -> Iterator[_ChangeOutcome]:
    key = restoration.message_key
    for change in restoration.plan.reversible:
        if restoration.changes_ledger:
            yield _ChangeOutcome(key, change, done, why)
        else:
            yield _ChangeOutcome(key, change, "already so")
    for irreversible in restoration.plan.irreversible:
        yield _ChangeOutcome(key, irreversible.change, "stays", irreversible.reason)


async def _preview_verdicts(settings: Settings, model: Model, hypothetical: HypotheticalCounts) -> Preview:
    """Compare the verdicts of the messages that were checked last with those that they would get."""
    unreadable: list[StoreIncompatible] = []
    messages = make_recent_messages(settings, model).newest(_MAX_PREVIEWED, unreadable.append)
    layer = None
    if settings.autolearn:
        layer = make_autolearn_model(settings, model.client)
        await layer.open(sign=False)
    preview = await preview_verdicts(messages, make_scorer(settings, hypothetical, autolearned_counts=layer))
    if unreadable:
        print_note(f"nbstream: {len(unreadable)} remembered messages are left out: {unreadable[0]}")
    return preview


def _outcome_to_text(outcome: _ChangeOutcome) -> str:
    change = outcome.change
    who = f"{change.source} {change.actor}".rstrip()
    result = f"{outcome.outcome}: {outcome.why}" if outcome.why else outcome.outcome
    return printable(f"{local_time(change.at)}  {outcome.message_key}  {change.description}  {who}  {result}")


def _outcome_to_json(outcome: _ChangeOutcome) -> str:
    change = outcome.change
    return json.dumps(
        {
            "time": iso_time(change.at),
            "id": outcome.message_key,
            "change": change.description,
            "source": change.source,
            "actor": change.actor,
            "outcome": outcome.outcome,
            "why": outcome.why or None,
        }
    )


def _summary_to_text(summary: _UndoSummary, *, done: bool) -> str:
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


def _summary_to_json(summary: _UndoSummary, *, done: bool) -> str:
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
