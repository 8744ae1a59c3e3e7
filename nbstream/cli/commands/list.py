"""``nbstream list``: show and change lists of allowed and blocked senders, of the site or of one user.

Rules: the lists in the settings are shown, and changed in the file alone. A running daemon follows at
once. Nothing that others wrote reaches the terminal but printable characters.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from nbstream.cli.exit_codes import EX_DATAERR, EX_NOINPUT
from nbstream.daemon import config
from nbstream.daemon.assembly.store import open_sender_lists
from nbstream.policy.address_patterns import MAX_ENTRIES, MAX_NETWORKS
from nbstream.policy.sender_lists import SITE, ListKind, list_owner
from nbstream.server.api_json import iso_time
from nbstream.store.sender_lists import MAX_ALL_ENTRIES, ListChange
from nbstream.system_users import current_user
from nbstream.terminal import local_time, print_error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nbstream.daemon.config import Settings
    from nbstream.policy.address_patterns import SenderPattern
    from nbstream.policy.sender_lists import ListEntry
    from nbstream.store.sender_lists import StoredSenderLists
    from nbstream.terminal import Output

_FULL = (
    f"nothing was added: a list has at most {MAX_ENTRIES} entries, {MAX_NETWORKS} of them networks, "
    f"and all lists together have at most {MAX_ALL_ENTRIES}"
)


async def run(options: argparse.Namespace, output: Output) -> int | None:
    """Print or change a list; 65 where it is full, 66 for an unknown entry, 75 when Redis is away."""
    settings = config.load_settings(config.find_config_file(options.config))
    owner = list_owner(options.user) if options.user else SITE
    async with open_sender_lists(settings) as lists:
        if options.action == "show":
            _show(settings, owner, await lists.entries(owner), output)
            return None
        return await _change(lists, owner, options, output)


async def _change(lists: StoredSenderLists, owner: str, options: argparse.Namespace, output: Output) -> int | None:
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
    output.show(f"{change}: {kind}{sender.text}, for {whose}")
    return None


def _show(settings: Settings, owner: str, entries: Sequence[ListEntry], output: Output) -> None:
    written = [(kind, sender) for kind in ListKind for sender in getattr(settings.lists, kind) if owner == SITE]
    for kind, sender in written:
        members = {"kind": kind, "sender": sender, "time": None, "actor": None}
        output.show(f"{kind:5}  {sender}  (settings)", members)
    for entry in entries:
        sender = entry.pattern.text
        members = {"kind": entry.kind, "sender": sender, "time": iso_time(entry.at), "actor": entry.actor}
        output.show(f"{entry.kind:5}  {sender}  {local_time(entry.at)}  {entry.actor}", members)
    if not written and not entries:
        print_error(f"the list of {'the site' if owner == SITE else owner} is empty")
