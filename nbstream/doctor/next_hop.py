"""The next hop: whether mail could leave, and until when its certificate is valid."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from nbstream.addresses import TcpAddress
from nbstream.assembly.delivery import make_next_hop
from nbstream.delivery.next_hop_connection import open_connection
from nbstream.delivery.smtp_next_hop import SmtpNextHop
from nbstream.doctor.certificates import next_hop_certificate
from nbstream.errors import RelayUnavailable
from nbstream.findings import ok, problem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nbstream.delivery.next_hop_connection import SmtpServer
    from nbstream.doctor.examination import Site
    from nbstream.findings import Finding

AWAY = problem(
    "next_hop",
    "No mail can leave to the next hop {name}: {problem}.",
    "Start the server that relay.next_hop names, set relay.tls and the login as it asks, or make room in the "
    "Maildir; mail waits until then. The log of the daemon says more.",
)
READY = ok("next_hop", "The next hop {name} takes mail.")

_SECONDS = 5.0  # with the longest wait of ``problem`` less than the deadline of the check


async def examine_next_hop(site: Site) -> Sequence[Finding]:
    """Ask the next hop as ``/readyz`` does, where mail goes to it at all."""
    address = getattr(site.settings.relay.next_hop, "address", None)
    # A folder or a socket may be for the user of the daemon alone.
    if not site.relays_mail or (site.daemon_unknown and not isinstance(address, TcpAddress)):
        return []
    next_hop = make_next_hop(site.settings)
    try:
        found = await next_hop.problem()
    finally:
        await next_hop.close()
    relay = site.settings.relay
    name = address or site.settings.maildir_folder
    if not isinstance(next_hop, SmtpNextHop):
        return [AWAY(name=name, problem=found) if found else READY(name=name)]
    certificate, reason = None, ""
    try:
        async with asyncio.timeout(_SECONDS):
            certificate = await _certificate(next_hop.server)
    except (RelayUnavailable, OSError) as error:  # a TimeoutError is an OSError
        cause = error.__cause__ or error
        text = getattr(cause, "strerror", None) or str(cause)
        reason = f" ({text})" if text else ""
    if found:
        return [AWAY(name=name, problem=found + reason)]
    findings = [READY(name=name)]
    if certificate is not None:
        findings.append(next_hop_certificate(relay.tls, certificate, datetime.now(UTC)))
    return findings


async def _certificate(server: SmtpServer) -> bytes | None:
    """Connect, and return the certificate of the server (DER), None without TLS.

    Raises ``RelayUnavailable`` and ``OSError``.
    """
    context = server.tls.make_context() if server.tls else None
    connection, _ = await open_connection(server, context, _SECONDS)
    certificate = connection.peer_certificate
    connection.quit()
    return certificate
