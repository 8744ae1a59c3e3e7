"""The servers beside nbstream: whether mail could leave to the next hop, and whether users could log in."""

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
from nbstream.users.login_servers import make_login_server

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
LOGIN_AWAY = problem(
    "user_page",
    "No user can log in with a password: {problem}.",
    "Start the server that user_page.login names, and let the user of the daemon use its socket. "
    "user_page.ca_file has the certificates that the one of an IMAP server is verified with.",
)
LOGIN_READY = ok("user_page", "The server that knows the passwords of the users answers.")

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


async def examine_login_server(site: Site) -> Sequence[Finding]:
    """Connect to the server where users of the self-service page log in with passwords; none is sent."""
    section = site.settings.user_page
    server = make_login_server(section) if section else None
    if server is None:
        return []
    try:
        found = await server.problem()
    finally:
        server.close()
    return [LOGIN_AWAY(problem=found) if found else LOGIN_READY()]
