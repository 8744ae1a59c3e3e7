"""``nbstream list``: see and change the senders that always or never pass, of the site or of one user.

Rules: the lists in the settings are shown, and changed in the file alone. A running daemon follows at
once. Nothing that others wrote reaches the terminal but printable characters.
"""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from nbstream.cli import interrupts
from nbstream.cli.exit_codes import EX_DATAERR, EX_NOINPUT
from nbstream.cli.terminal import local_time, print_error, printable
from nbstream.daemon import config
from nbstream.daemon.assembly.store import open_sender_lists
from nbstream.policy.address_patterns import MAX_ENTRIES, MAX_SEARCHED_ENTRIES
from nbstream.policy.sender_lists import SITE, ListKind, list_owner
from nbstream.server.api_json import iso_time
from nbstream.store.sender_lists import MAX_ALL_ENTRIES, ListChange
from nbstream.system_users import current_user

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nbstream.daemon.config import Settings
    from nbstream.policy.address_patterns import SenderPattern
    from nbstream.store.sender_lists import StoredEntry, StoredSenderLists

_FULL = (
    f"nothing was added: a list has at most {MAX_ENTRIES} entries, {MAX_SEARCHED_ENTRIES} of them networks and "
    f"patterns with * and ?, and all lists together have at most {MAX_ALL_ENTRIES}"
)


def run(options: argparse.Namespace) -> int:
    """Print or change a list; 65 where it is full, 66 for an unknown entry, 75 when Redis is away."""
    settings = config.load_settings(config.find_config_file(options.config))
    return interrupts.run_interruptible(_run(settings, options))


async def _run(settings: Settings, options: argparse.Namespace) -> int:
    owner = list_owner(options.user) if options.user else SITE
    async with open_sender_lists(settings) as lists:
        if options.action == "show":
            return _show(settings, owner, await lists.entries(owner), as_json=options.json)
        return await _change(lists, owner, options)


async def _change(lists: StoredSenderLists, owner: str, options: argparse.Namespace) -> int:
    sender: SenderPattern = options.sender
    if options.action == "add":
        change = await lists.add(owner, ListKind(options.kind), sender, current_user())
    else:
        change = await lists.remove(owner, sender)
    if change is ListChange.FULL:
        print_error(_FULL)
        return EX_DATAERR
    whose = "the site" if owner == SITE else owner
    if change is ListChange.UNKNOWN:
        print_error(f"the list of {whose} has no entry {sender.text}")
        return EX_NOINPUT
    kind = f"{options.kind} " if options.action == "add" else ""
    print(printable(f"{change}: {kind}{sender.text}, for {whose}"))
    return 0


def _show(settings: Settings, owner: str, entries: Sequence[StoredEntry], *, as_json: bool) -> int:
    written = [(kind, sender) for kind in ListKind for sender in getattr(settings.lists, kind) if owner == SITE]
    for kind, sender in written:
        text = json.dumps({"kind": kind, "sender": sender, "time": None, "actor": None})
        print(text if as_json else printable(f"{kind:5}  {sender}  (settings)"))
    for entry in entries:
        values = {
            "kind": entry.kind,
            "sender": entry.pattern.text,
            "time": iso_time(entry.at),
            "actor": entry.actor,
        }
        line = f"{entry.kind:5}  {entry.pattern.text}  {local_time(entry.at)}  {entry.actor}"
        print(json.dumps(values) if as_json else printable(line))
    if not written and not entries:
        print_error(f"the list of {'the site' if owner == SITE else owner} is empty")
    return 0
