"""``nbstream forget-user``: erase all that is stored of a user.

Rules: without ``--yes`` nothing is written. Daemons may run; an interrupted run may be repeated. After the erasure
the same is looked for once more, and what is there then has come meanwhile.
"""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from nbstream.cli import interrupts
from nbstream.cli.exit_codes import EX_TEMPFAIL
from nbstream.cli.imap_positions import forget_positions
from nbstream.cli.terminal import print_error, print_note, printable
from nbstream.daemon import config
from nbstream.daemon.assembly.parts import make_correspondent_reader, open_one_shot_filter
from nbstream.daemon.assembly.policy import make_own_model_names
from nbstream.daemon.assembly.store import make_own_model
from nbstream.delivery.quarantine import Quarantine
from nbstream.filter.own_models.index import OwnModelIndex
from nbstream.mail.addresses import canonical_address
from nbstream.store.state_file import StateFile
from nbstream.system_users import current_user
from nbstream.web.users.digest_state import DigestState
from nbstream.web.users.erasure import UserErasure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nbstream.daemon.config import Settings
    from nbstream.web.users.erasure import ErasureStep


def run(options: argparse.Namespace) -> int:
    """Print what is or would be erased; 75 when Redis is away, or when something was left."""
    settings = config.load_settings(config.find_config_file(options.config))
    return interrupts.run_interruptible(_run(settings, options))


async def _run(settings: Settings, options: argparse.Namespace) -> int:
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
        erased = [step async for step in erasure.steps(options.address, erase=options.yes)]
        left = [step async for step in erasure.steps(options.address, erase=False)] if options.yes else []
    if options.yes:
        forget_positions(state, f"{settings.model.name} {canonical_address(options.address)}")
    state.close()
    _print(options, erased, sum(step.count for step in left))
    if not options.json:
        print_note(_what_stays(settings))
    if any(step.count for step in left):
        print_error("something of the user has come in meanwhile: run the command again")
        return EX_TEMPFAIL
    return 0


def _print(options: argparse.Namespace, erased: Sequence[ErasureStep], left: int) -> None:
    if options.json:
        print(
            json.dumps(
                {"done": options.yes, "erased": {step.subject: step.count for step in erased}, "left": left}
            )
        )
        return
    for step in erased:
        print(printable(f"{step.count:8}  {step.subject}"))
    if options.yes:
        print("erased; looked again: " + (f"{left} are there" if left else "nothing of the user is left"))
    else:
        print("nothing was changed; --yes erases it")


def _what_stays(settings: Settings) -> str:
    held = len(Quarantine(settings.quarantine_folder).messages())
    note = "nbstream: mail stays where it is, and so do the log and backups"
    return f"{note}; the quarantine has {held} messages of all users: nbstream quarantine list" if held else note
