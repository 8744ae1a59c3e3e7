"""Sender lists: entries that allow a sender, and that nothing can prove."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from nbstream.assembly.store import open_sender_lists
from nbstream.errors import ConfigError, StoreUnavailable
from nbstream.findings import warning
from nbstream.policy.sender_lists import SITE, ListKind
from nbstream.policy.sender_patterns import SenderPattern

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nbstream.doctor.examination import Site
    from nbstream.findings import Finding

UNPROVABLE = warning(
    "lists",
    "The list of the site allows {senders}, but trusted_authserv_ids is empty: no result of SPF, DKIM or DMARC is "
    "read, and only a login that the mail server names can prove a sender.",
    "Let trusted_authserv_ids name your own server, once it removes forged fields, or allow the networks of these "
    "senders.",
)

_SHOWN = 3


async def examine_lists(site: Site) -> Sequence[Finding]:
    """Compare the entries that allow a sender with the settings that could prove it."""
    if site.settings.trusted_authserv_ids:
        return []
    senders = await _allowed_senders(site)
    if not senders:
        return []
    more = f" and {len(senders) - _SHOWN} more" if len(senders) > _SHOWN else ""
    return [UNPROVABLE(senders=", ".join(senders[:_SHOWN]) + more)]


async def _allowed_senders(site: Site) -> Sequence[str]:
    """Return the senders that the lists of the site allow, without networks."""
    patterns = [SenderPattern.parse(sender) for sender in site.settings.lists.allow]
    if site.has_redis_to_ask:
        with suppress(ConfigError, StoreUnavailable):  # the check of Redis says why
            async with open_sender_lists(site.settings) as lists:
                entries = await lists.entries(SITE)
            patterns += [entry.pattern for entry in entries if entry.kind is ListKind.ALLOW]
    return list(dict.fromkeys(pattern.text for pattern in patterns if pattern.network is None))
