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
from nbstream.cli.actor import user
from nbstream.cli.commands.history import local_time
from nbstream.cli.terminal import complain, printable
from nbstream.filter.preview import Preview, Supposed, preview
from nbstream.store.cancellation import stop_if_cancelled
from nbstream.store.model.autolearn_layer import Layered
from nbstream.store.model.history import Selection
from nbstream.store.undo.restoration import chosen, prepare, restore
from nbstream.wire.explanation_json import iso_time

if TYPE_CHECKING:
    from nbstream.bayes.counts import Totals
    from nbstream.config import Settings
    from nbstream.filter import CountSource
    from nbstream.store.model.model import Model
    from nbstream.store.undo.plan import Change
    from nbstream.store.undo.restoration import Restoration

_PREVIEWED = 1000
"""So many of the messages checked last are looked at again: a second or two."""
_SO_ALREADY = "already so"
_MEANWHILE = "stays: changed by others at this very moment"


@dataclass(frozen=True, slots=True)
class _Result:
    """What all of it comes to: changes by what became of them, the messages learned before and after."""

    outcomes: Mapping[str, int]
    before: Totals
    after: Totals
    verdicts: Preview | None


def run(options: argparse.Namespace) -> int:
    """Say what is or would be taken back; ``StoreUnavailable`` (75) when Redis is away."""
    if options.since is None and options.id is None:
        options.wrong_usage("one of --since and --id is needed")
    return interrupts.run(_run(options))


async def _run(options: argparse.Namespace) -> int:
    settings = config.load(config.find_config(options.config))
    selection = Selection(options.since or 0.0, options.until, options.actor, options.label, options.id)
    async with assembly.one_shot(settings) as (_, model):
        found = await chosen(model, selection)
        if not found:
            complain(f"no such change in the history of model {settings.model.name!r}")
            return 0
        if options.yes:
            result = await _take_back(model, found, as_json=options.json)
        else:
            result = await _suppose(settings, model, found, as_json=options.json)
    print(_json(result, done=options.yes) if options.json else _text(result, done=options.yes))
    return 0


async def _take_back(model: Model, found: Mapping[str, Sequence[Change]], *, as_json: bool) -> _Result:
    """Do it, a message at a time."""
    outcomes: Counter[str] = Counter()
    before = await model.totals()
    for key, changes in found.items():
        stop_if_cancelled()
        restoration = await prepare(model, key, changes)
        done = "taken back" if await restore(model, restoration, user()) else _MEANWHILE
        outcomes.update(_tell(restoration, done, as_json=as_json))
    return _Result(outcomes, before, await model.totals(), None)


async def _suppose(
    settings: Settings, model: Model, found: Mapping[str, Sequence[Change]], *, as_json: bool
) -> _Result:
    """What it would come to."""
    outcomes: Counter[str] = Counter()
    supposed = Supposed(model)
    for key, changes in found.items():
        stop_if_cancelled()
        restoration = await prepare(model, key, changes)
        supposed.replace(restoration.live, restoration.former)
        outcomes.update(_tell(restoration, "would be taken back", as_json=as_json))
    _, after = await supposed.look_up([])
    remembered = assembly.memory(settings, model).recent(_PREVIEWED)
    counts: CountSource = supposed
    if settings.autolearn:
        layer = assembly.auto_model(settings, model.client)
        await layer.open(sign=False)
        counts = Layered(supposed, layer)
    verdicts = await preview(remembered, assembly.scorer(settings, counts))
    return _Result(outcomes, await model.totals(), after, verdicts)


def _tell(restoration: Restoration, done: str, *, as_json: bool) -> Iterator[str]:
    """Print what became of each change of a message; the outcomes."""
    taken = done if restoration.changes else _SO_ALREADY
    for change in restoration.plan.taken:
        print(_line(restoration.message_key, change, taken, as_json=as_json))
        yield taken.partition(":")[0]
    for kept in restoration.plan.kept:
        print(_line(restoration.message_key, kept.change, f"stays: {kept.why}", as_json=as_json))
        yield "stays"


def _line(key: str, change: Change, outcome: str, *, as_json: bool) -> str:
    if not as_json:
        who = f"{change.source} {change.actor}".rstrip()
        return printable(f"{local_time(change.at)}  {key}  {change.what}  {who}  {outcome}")
    word, _, why = outcome.partition(": ")
    told = {"time": iso_time(change.at), "id": key, "change": change.what}
    return json.dumps(
        {**told, "source": change.source, "actor": change.actor, "outcome": word, "why": why or None}
    )


def _text(result: _Result, *, done: bool) -> str:
    told = ", ".join(f"{count} {outcome}" for outcome, count in sorted(result.outcomes.items()))
    knew, knows = ("knew", "now") if done else ("knows", "then")
    lines = [f"changes: {told}; the model {knew} {_known(result.before)}, {knows} {_known(result.after)}"]
    if result.verdicts and result.verdicts.messages:
        changed = result.verdicts.changes.items()
        others = ", ".join(f"{count} {was} -> {would}" for (was, would), count in sorted(changed))
        lines.append(
            f"verdicts: of the last {result.verdicts.messages} messages {others or 'none would be another'}"
        )
    if not done:
        lines.append("nothing was changed; --yes does it")
    return "\n".join(lines)


def _json(result: _Result, *, done: bool) -> str:
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


def _known(totals: Totals) -> str:
    return ", ".join(f"{count} {label}" for label, count in zip(CLASSES, totals.messages, strict=True))
