"""The next hop: whether mail could leave."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbstream.assembly.delivery import make_next_hop
from nbstream.doctor.findings import ok, problem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nbstream.doctor.findings import Finding
    from nbstream.doctor.site import Site

AWAY = problem(
    "next_hop",
    "No mail can leave to the next hop {name}: {problem}.",
    "Start the server that relay.next_hop names, set relay.tls and the login as it asks, or make room in the "
    "Maildir; mail waits until then. The log of the daemon says more.",
)
READY = ok("next_hop", "The next hop {name} takes mail.")


async def examine_next_hop(site: Site) -> Sequence[Finding]:
    """Ask the next hop as ``/readyz`` does."""
    next_hop = make_next_hop(site.settings)
    try:
        found = await next_hop.problem()
    finally:
        await next_hop.close()
    setting = site.settings.relay.next_hop
    name = getattr(setting, "address", None) or site.settings.maildir_folder
    return [AWAY(name=name, problem=found) if found else READY(name=name)]
