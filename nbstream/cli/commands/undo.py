"""``nbstream undo``: take back what was taught, as the history tells it.

Rules: without ``--yes`` nothing is written, and what would be is told change by change; a change that cannot be
taken back is told with its reason and hinders no other. By messages, the one changed last first; within a message
the newest change first. An interrupted run may be repeated.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nbstream import config
from nbstream.assembly import assembly
from nbstream.bayes.counts import CLASSES
from nbstream.cli import interrupts
from nbstream.cli.actor import current_user
from nbstream.cli.terminal import local_time, print_error, printable
from nbstream.filter.preview import HypotheticalCounts, Preview, preview_verdicts
from nbstream.store.cancellation import stop_if_cancelled
from nbstream.store.model.autolearn_layer import LayeredCounts
from nbstream.store.model.history import HistorySelection
from nbstream.store.undo.restoration import apply_restoration, prepare_restoration, selected_changes
from nbstream.wire.explanation_json import iso_time

if TYPE_CHECKING:
    from nbstream.bayes.counts import Totals
    from nbstream.config import Settings
    from nbstream.filter import CountSource
    from nbstream.store.model.model import Model
    from nbstream.store.undo.plan import UndoableChange
    from nbstream.store.undo.restoration import Restoration

_MAX_PREVIEWED = 1000
"""So many of the messages checked last are looked at again: a second or two."""
_ALREADY_SO = "already so"
_CHANGED_MEANWHILE = "stays: changed by others at this very moment"


@dataclass(frozen=True, slots=True)
class _UndoResult:
    """What all of it comes to: changes by what became of them, the messages learned before and after."""

    outcomes: Mapping[str, int]
    before: Totals
    after: Totals
    verdicts: Preview | None


def run(options: argparse.Namespace) -> int:
    """Say what is or would be taken back; ``StoreUnavailable`` (75) when Redis is away."""
    if options.since is None and options.id is None:
        options.wrong_usage("one of --since and --id is needed")
    return interrupts.run_interruptible(_run(options))


async def _run(options: argparse.Namespace) -> int:
    settings = config.load_settings(config.find_config_file(options.config))
    selection = HistorySelection(options.since or 0.0, options.until, options.actor, options.label, options.id)
    async with assembly.open_one_shot_filter(settings) as (_, model):
        found = await selected_changes(model, selection)
        if not found:
            print_error(f"no such change in the history of model {settings.model.name!r}")
            return 0
        if options.yes:
            result = await _undo_changes(model, found, as_json=options.json)
        else:
            result = await _preview_undo(settings, model, found, as_json=options.json)
    print(_render_json(result, done=options.yes) if options.json else _render_text(result, done=options.yes))
    return 0


async def _undo_changes(
    model: Model, found: Mapping[str, Sequence[UndoableChange]], *, as_json: bool
) -> _UndoResult:
    """Do it, a message at a time."""
    outcomes: Counter[str] = Counter()
    before = await model.totals()
    for key, changes in found.items():
        stop_if_cancelled()
        restoration = await prepare_restoration(model, key, changes)
        done = "taken back" if await apply_restoration(model, restoration, current_user()) else _CHANGED_MEANWHILE
        outcomes.update(_print_restoration(restoration, done, as_json=as_json))
    return _UndoResult(outcomes, before, await model.totals(), None)


async def _preview_undo(
    settings: Settings, model: Model, found: Mapping[str, Sequence[UndoableChange]], *, as_json: bool
) -> _UndoResult:
    """What it would come to."""
    outcomes: Counter[str] = Counter()
    supposed = HypotheticalCounts(model)
    for key, changes in found.items():
        stop_if_cancelled()
        restoration = await prepare_restoration(model, key, changes)
        supposed.replace_entry(restoration.current_entry, restoration.restored_entry)
        outcomes.update(_print_restoration(restoration, "would be taken back", as_json=as_json))
    _, after = await supposed.look_up([])
    remembered = assembly.make_recent_messages(settings, model).newest(_MAX_PREVIEWED)
    counts: CountSource = supposed
    if settings.autolearn:
        layer = assembly.make_autolearn_model(settings, model.client)
        await layer.open(sign=False)
        counts = LayeredCounts(supposed, layer)
    verdicts = await preview_verdicts(remembered, assembly.make_scorer(settings, counts))
    return _UndoResult(outcomes, await model.totals(), after, verdicts)


def _print_restoration(restoration: Restoration, done: str, *, as_json: bool) -> Iterator[str]:
    """Print what became of each change of a message; the outcomes."""
    taken = done if restoration.changes_ledger else _ALREADY_SO
    for change in restoration.plan.reversible:
        print(_render_change(restoration.message_key, change, taken, as_json=as_json))
        yield taken.partition(":")[0]
    for kept in restoration.plan.irreversible:
        print(_render_change(restoration.message_key, kept.change, f"stays: {kept.reason}", as_json=as_json))
        yield "stays"


def _render_change(key: str, change: UndoableChange, outcome: str, *, as_json: bool) -> str:
    if not as_json:
        who = f"{change.source} {change.actor}".rstrip()
        return printable(f"{local_time(change.at)}  {key}  {change.description}  {who}  {outcome}")
    word, _, why = outcome.partition(": ")
    told = {"time": iso_time(change.at), "id": key, "change": change.description}
    return json.dumps(
        {**told, "source": change.source, "actor": change.actor, "outcome": word, "why": why or None}
    )


def _render_text(result: _UndoResult, *, done: bool) -> str:
    told = ", ".join(f"{count} {outcome}" for outcome, count in sorted(result.outcomes.items()))
    knew, knows = ("knew", "now") if done else ("knows", "then")
    lines = [
        f"changes: {told}; the model {knew} {_describe_totals(result.before)}, "
        f"{knows} {_describe_totals(result.after)}"
    ]
    if result.verdicts and result.verdicts.messages:
        changed = result.verdicts.changes.items()
        others = ", ".join(f"{count} {was} -> {would}" for (was, would), count in sorted(changed))
        lines.append(
            f"verdicts: of the last {result.verdicts.messages} messages {others or 'none would be another'}"
        )
    if not done:
        lines.append("nothing was changed; --yes does it")
    return "\n".join(lines)


def _render_json(result: _UndoResult, *, done: bool) -> str:
    told: dict[str, Any] = {"done": done, "changes": dict(result.outcomes)}
    for name, totals in (("before", result.before), ("after", result.after)):
        told[name] = dict(zip(CLASSES, totals.messages, strict=True))
    if result.verdicts:
        told["checked"] = result.verdicts.messages
        told["verdicts"] = [
            {"was": was, "would": would, "messages": count}
            for (was, would), count in sorted(result.verdicts.changes.items())
        ]
    return json.dumps(told)


def _describe_totals(totals: Totals) -> str:
    return ", ".join(f"{count} {label}" for label, count in zip(CLASSES, totals.messages, strict=True))
