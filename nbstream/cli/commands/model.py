"""``nbstream model``: see the own models of users and domains, copy and remove them.

Rules: without ``--yes`` nothing is removed. Daemons may run; an interrupted removal may be repeated.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from nbstream.bayes.clues import NamedCounts, top_tokens
from nbstream.bayes.counts import CLASSES
from nbstream.cli import interrupts
from nbstream.cli.commands.explain import WHY_NO_WORDS
from nbstream.cli.commands.export import open_output, print_summary, write_model
from nbstream.cli.commands.import_ import import_file
from nbstream.cli.terminal import local_time, print_error, print_note, printable
from nbstream.daemon import config
from nbstream.daemon.assembly.store import make_own_model, open_running_redis
from nbstream.errors import InputError
from nbstream.filter.own_models.index import OwnModelIndex
from nbstream.policy.own_models.names import levels_of_name
from nbstream.server.api_json import iso_time
from nbstream.store.transfer import archive

if TYPE_CHECKING:
    from nbstream.daemon.config import Settings
    from nbstream.filter.own_models.index import ListedModel
    from nbstream.store.model.model import Model

_TOKENS = 5  # of each class


def run(options: argparse.Namespace) -> int:
    """Print own models; 66 for an unknown one, 75 when Redis is away."""
    settings = config.load_settings(config.find_config_file(options.config))
    work = {"list": _list, "show": _show, "export": _export, "import": _import, "forget": _forget}[options.action]
    return interrupts.run_interruptible(work(settings, options))


async def _list(settings: Settings, options: argparse.Namespace) -> int:
    count = 0
    async with open_running_redis(settings) as clients:
        async for model in OwnModelIndex(clients.client, settings.model.name).models():
            if not count and not options.json:
                print(f"{'ham':>8} {'spam':>8} {'tokens':>9} {'kB':>9}  {'last used':25}  name")
            count += 1
            print(json.dumps(_to_json(model)) if options.json else _to_text(model))
    if not count:
        print_error(f"there are no own models below model {settings.model.name!r}")
    return 0


async def _show(settings: Settings, options: argparse.Namespace) -> int:
    async with open_running_redis(settings) as clients:
        listed = await _find_listed(OwnModelIndex(clients.client, settings.model.name), options.name)
        model = await make_own_model(settings, clients.client, options.name).open(sign=False)
        counts = await model.counts()
    named = NamedCounts(*counts.snapshot(), counts.totals)
    tokens = {label: top_tokens(named, label, _TOKENS) for label in CLASSES}
    levels = [settings.model.name, *levels_of_name(listed.name)]
    if settings.model.private_tokens:
        print_note(f"nbstream: {WHY_NO_WORDS}; nobody can read them, and explain shows the words of a file")
    if options.json:
        members = {
            **_to_json(listed),
            "levels": levels,
            "strongest": {label: [asdict(token) for token in tokens[label]] for label in CLASSES},
        }
        print(json.dumps(members))
        return 0
    learned = ", ".join(f"{count} {label}" for label, count in zip(CLASSES, listed.totals.messages, strict=True))
    print(printable(f"model    {listed.name}"))
    print(printable(f"levels   {' -> '.join(levels)}"))
    print(f"learned  {learned}, {listed.totals.vocabulary_size} tokens")
    print(f"used     {local_time(listed.used_at)}")
    print(f"stored   about {_kilobytes(listed)} kB in Redis")
    for label in CLASSES:
        words = "  ".join(f"{printable(token.token)} {token.log_ratio:+.1f}" for token in tokens[label])
        print(f"{label:7}  {words}".rstrip())
    return 0


async def _export(settings: Settings, options: argparse.Namespace) -> int:
    with open_output(options.file) as stream:
        async with open_running_redis(settings) as clients:
            listed = await _find_listed(OwnModelIndex(clients.client, settings.model.name), options.name)
            model = await make_own_model(settings, clients.client, listed.name).open(sign=False)
            summary = await write_model(model, archive.OWN_PREFIX + listed.name, stream)
    print_summary(summary, options.file)
    return 0


async def _import(settings: Settings, options: argparse.Namespace) -> int:
    async with open_running_redis(settings) as clients:
        opened: list[str] = []

        async def open_model(name: str) -> Model:
            opened.append(name)
            if not name.startswith(archive.OWN_PREFIX) or len(opened) > 1:
                raise InputError(f"{options.file} has the models of a site: nbstream import reads it")
            return await make_own_model(settings, clients.client, options.name).open(sign=False)

        await import_file(settings, options.file, open_model)
    return 0


async def _forget(settings: Settings, options: argparse.Namespace) -> int:
    async with open_running_redis(settings) as clients:
        index = OwnModelIndex(clients.client, settings.model.name)
        listed = await _find_listed(index, options.name)
        if options.yes:
            await index.remove([listed.name])
    learned = ", ".join(f"{count} {label}" for label, count in zip(CLASSES, listed.totals.messages, strict=True))
    what = f"model {listed.name}, which has learned {learned}, {listed.totals.vocabulary_size} tokens"
    text = f"removed: {what}" if options.yes else f"would be removed: {what}\nnothing was changed; --yes does it"
    print("\n".join(map(printable, text.split("\n"))))
    return 0


async def _find_listed(index: OwnModelIndex, name: str) -> ListedModel:
    """Return the own model of this name. Raises ``InputError`` where there is none."""
    model = await index.find(name)
    if model is None:
        raise InputError(f"there is no own model {name}: nbstream model list shows those that were taught")
    return model


def _to_json(model: ListedModel) -> dict[str, Any]:
    return {
        "name": model.name,
        "used": iso_time(model.used_at),
        "learned": dict(zip(CLASSES, model.totals.messages, strict=True)),
        "tokens": model.totals.vocabulary_size,
        "bytes": model.bytes_stored,
    }


def _to_text(model: ListedModel) -> str:
    learned = dict(zip(CLASSES, model.totals.messages, strict=True))
    numbers = f"{learned['ham']:8} {learned['spam']:8} {model.totals.vocabulary_size:9} {_kilobytes(model):9}"
    return printable(f"{numbers}  {local_time(model.used_at):25}  {model.name}")


def _kilobytes(model: ListedModel) -> int:
    return round(model.bytes_stored / 1000)
