"""``nbstream model``: what the common model and the own models of users and domains know."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from nbstream.bayes.clues import NamedCounts, top_tokens
from nbstream.bayes.columns import CLASSES
from nbstream.cli.commands.explain import WHY_NO_WORDS
from nbstream.daemon import config
from nbstream.daemon.assembly.store import make_model, make_own_model, open_running_redis
from nbstream.errors import InputError
from nbstream.filter.own_models.index import OwnModelIndex
from nbstream.policy.own_models.names import levels_of_name
from nbstream.server.api_json import iso_time
from nbstream.terminal import local_time, print_error, print_note

if TYPE_CHECKING:
    from nbstream.bayes.counts import Totals
    from nbstream.filter.own_models.index import ListedModel
    from nbstream.terminal import Output


async def run(options: argparse.Namespace, output: Output) -> None:
    """Print own models, or one model; 66 for an unknown one, 75 when Redis is away."""
    settings = config.load_settings(config.find_config_file(options.config))
    common = settings.model.name
    async with open_running_redis(settings) as clients:
        index = OwnModelIndex(clients.client, common)
        if options.action == "list":
            await _list(index, common, output)
            return
        listed = await find_own_model(index, options.name) if options.name else None
        model = (
            make_own_model(settings, clients.client, listed.name)
            if listed
            else make_model(settings, clients.client)
        )
        counts = await (await model.open(sign=False)).counts()
    named = NamedCounts(*counts.snapshot(), counts.totals)
    tokens = {label: top_tokens(named, label, options.k) for label in CLASSES}
    levels = [common, *(levels_of_name(listed.name) if listed else ())]
    if settings.model.private_tokens:
        print_note(f"nbstream: {WHY_NO_WORDS}; nobody can read them, and explain shows the words of a file")
    totals = listed.totals if listed else counts.totals
    members = _to_json(listed) if listed else {"name": common, **_knowledge(totals)}
    strongest = {label: [asdict(token) for token in tokens[label]] for label in CLASSES}
    lines = [
        f"model    {listed.name if listed else common}",
        f"levels   {' -> '.join(levels)}",
        f"learned  {describe_totals(totals)}",
    ]
    if listed:
        lines += [f"used     {local_time(listed.used_at)}", f"stored   about {_kilobytes(listed)} kB in Redis"]
    for label in CLASSES:
        words = "  ".join(f"{token.token} {token.log_ratio:+.1f}" for token in tokens[label])
        lines.append(f"{label:7}  {words}".rstrip())
    output.show(lines, {**members, "levels": levels, "strongest": strongest})


async def _list(index: OwnModelIndex, common: str, output: Output) -> None:
    head = [f"{'ham':>8} {'spam':>8} {'tokens':>9} {'kB':>9}  {'last used':25}  name"]
    count = 0
    async for model in index.models():
        ham, spam = model.totals.messages
        numbers = f"{ham:8} {spam:8} {model.totals.vocabulary_size:9} {_kilobytes(model):9}"
        line = f"{numbers}  {local_time(model.used_at):25}  {model.name}"
        output.show([*([] if count else head), line], _to_json(model))
        count += 1
    if not count:
        print_error(f"there are no own models below model {common!r}")


async def find_own_model(index: OwnModelIndex, name: str) -> ListedModel:
    """Return the own model of this name. Raises ``InputError`` where there is none."""
    model = await index.find(name)
    if model is None:
        raise InputError(f"there is no own model {name}: nbstream model list shows those that were taught")
    return model


def describe_totals(totals: Totals) -> str:
    """Return in words how much a model has learned."""
    learned = ", ".join(f"{count} {label}" for label, count in zip(CLASSES, totals.messages, strict=True))
    return f"{learned}, {totals.vocabulary_size} tokens"


def _knowledge(totals: Totals) -> dict[str, Any]:
    return {"learned": dict(zip(CLASSES, totals.messages, strict=True)), "tokens": totals.vocabulary_size}


def _to_json(model: ListedModel) -> dict[str, Any]:
    used = {"name": model.name, "used": iso_time(model.used_at)}
    return {**used, **_knowledge(model.totals), "bytes": model.bytes_stored}


def _kilobytes(model: ListedModel) -> int:
    return round(model.bytes_stored / 1000)
