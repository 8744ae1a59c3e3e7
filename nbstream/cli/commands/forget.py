"""``nbstream forget``: erase all that is stored of a user, one own model, or what was learned without people.

Rules: without ``--yes`` nothing is written. Daemons may run; an interrupted run may be repeated. After the erasure
of a user the same is looked for once more, and what is there then has come meanwhile.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from nbstream.bayes.columns import CLASSES
from nbstream.cli.commands.model import describe_totals, find_own_model
from nbstream.cli.exit_codes import EX_TEMPFAIL
from nbstream.daemon import config
from nbstream.daemon.assembly.parts import make_correspondent_reader, open_one_shot_filter
from nbstream.daemon.assembly.policy import make_own_model_names
from nbstream.daemon.assembly.store import make_model, make_own_model, open_running_redis
from nbstream.delivery.quarantine import Quarantine
from nbstream.filter.own_models.index import OwnModelIndex
from nbstream.store.state_file import StateFile
from nbstream.system_users import current_user
from nbstream.terminal import print_error, print_note
from nbstream.web.users.digest_state import DigestState
from nbstream.web.users.erasure import UserErasure

if TYPE_CHECKING:
    from nbstream.daemon.config import Settings
    from nbstream.terminal import Output


async def run(options: argparse.Namespace, output: Output) -> int | None:
    """Print what is or would be erased; 66 for an unknown model, 75 when Redis is away, or something was left."""
    settings = config.load_settings(config.find_config_file(options.config))
    if options.user:
        return await _forget_user(settings, options, output)
    async with open_running_redis(settings) as clients:
        if options.auto:
            model = make_model(settings, clients.client)
            totals = await model.forget_automatic() if options.yes else (await model.stored_totals())[1]
            done = "dropped"
            what = f"{describe_totals(totals)}, learned without people"
        else:
            index = OwnModelIndex(clients.client, settings.model.name)
            listed = await find_own_model(index, options.model)
            if options.yes:
                await index.remove([listed.name])
            totals, done = listed.totals, "removed"
            what = f"model {listed.name}, which has learned {describe_totals(totals)}"
    counts = {done: dict(zip(CLASSES, totals.messages, strict=True)), "tokens": totals.vocabulary_size}
    lines = (
        [f"{done}: {what}"] if options.yes else [f"would be {done}: {what}", "nothing was changed; --yes does it"]
    )
    output.show(lines, {"done": options.yes, **counts})
    return None


async def _forget_user(settings: Settings, options: argparse.Namespace, output: Output) -> int | None:
    names = make_own_model_names(settings)
    state = StateFile(settings.state_dir)
    async with open_one_shot_filter(settings) as (_, common):
        erasure = UserErasure(
            common,
            OwnModelIndex(common.client, settings.model.name),
            lambda name: make_own_model(settings, common.client, name),
            names,
            DigestState(state),
            current_user(),
            make_correspondent_reader(settings, common.client),
        )
        erased = [step async for step in erasure.steps(options.user, erase=options.yes)]
        left = 0
        if options.yes:
            left = sum([step.count async for step in erasure.steps(options.user, erase=False)])
    state.close()
    lines = [f"{step.count:8}  {step.subject}" for step in erased]
    found = f"found {left}" if left else "nothing of the user is left"
    lines.append(f"erased; looked again: {found}" if options.yes else "nothing was changed; --yes erases it")
    members = {"done": options.yes, "erased": {step.subject: step.count for step in erased}, "left": left}
    output.show(lines, members)
    if not options.json:
        waiting = len(Quarantine(settings.quarantine_folder).files())
        note = f"; the quarantine has mail of all users ({waiting}): nbstream quarantine list" if waiting else ""
        print_note(f"nbstream: mail stays where it is, and so do the log and backups{note}")
    if left:
        print_error("something of the user has come in meanwhile: run the command again")
        return EX_TEMPFAIL
    return None
