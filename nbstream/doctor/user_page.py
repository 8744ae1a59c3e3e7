"""The page of users: whether the server that knows their passwords answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbstream.findings import ok, problem
from nbstream.users.login_servers import make_login_server

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nbstream.doctor.examination import Site
    from nbstream.findings import Finding

AWAY = problem(
    "user_page",
    "No user can log in to his page with a password: {problem}.",
    "Start the server that user_page.login names, and let the user of the daemon use its socket. "
    "user_page.ca_file has the certificates that the one of an IMAP server is verified with.",
)
READY = ok("user_page", "The server that knows the passwords of the users answers.")


async def examine_user_page(site: Site) -> Sequence[Finding]:
    """Connect to the server, where users log in with passwords; none is sent."""
    section = site.settings.user_page
    server = make_login_server(section) if section else None
    if server is None:
        return []
    try:
        found = await server.problem()
    finally:
        server.close()
    return [AWAY(problem=found) if found else READY()]
