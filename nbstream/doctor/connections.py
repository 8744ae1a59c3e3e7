"""The connections of a site: listeners, next hop, login server.

Each listener is asked in its own protocol, at the address of the configuration.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from nbstream.addresses import TcpAddress, UnixAddress
from nbstream.daemon.assembly.parts import make_next_hop
from nbstream.daemon.assembly.store import open_running_redis
from nbstream.daemon.listeners import LISTENERS, METRICS
from nbstream.delivery.smtp_next_hop import SmtpNextHop, make_tls_context, open_connection
from nbstream.doctor.examination import failure
from nbstream.errors import ConfigError, RelayUnavailable, StoreUnavailable
from nbstream.findings import note, ok, problem
from nbstream.server.probe import Conversation, unchecked_tls
from nbstream.store.model.keys import ModelKeys
from nbstream.web.users.login_servers import make_login_server

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nbstream.addresses import ListenAddress
    from nbstream.delivery.settings import RelaySettings
    from nbstream.doctor.examination import Site
    from nbstream.findings import Finding
    from nbstream.server.listener import ListenerEntry


UNREACHABLE = problem(
    "listener.{name}",
    "listeners.{name} at {address} does not answer: {error}.",
    "Check in the daemon's log whether it listens there; the address may have changed without a restart.",
)
PORT_UNKNOWN = note(
    "listener.{name}",
    "listeners.{name} was not tested: the system chooses its port.",
    "Configure a port, or look up the current one in the daemon's log.",
)
NONE = problem(
    "listener", "No listener is enabled, so no mail can come in.", "Enable one in the section listeners."
)
_ANSWER_SECONDS = 8.0
_ANY_HOST = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - recognised here, not listened on


async def examine_listeners(site: Site) -> Sequence[Finding]:
    """Ask all listeners that are on, at once; where no daemon runs, that is the finding of another check."""
    listeners = [listener for listener in LISTENERS if listener.is_on(site.settings.listeners)]
    if not any(listener.name != METRICS.name for listener in listeners):
        return [NONE()]
    if not site.may_have_daemon:
        return []
    asked = []
    for listener in listeners:
        address = listener.listen_address(site.settings.listeners)
        has_tls = getattr(listener.section(site.settings.listeners), "tls", "off") == "implicit"
        asked.append(
            examine_in_redis(listener, site) if address is None else probe_listener(listener, address, has_tls)
        )
    return [finding for findings in await asyncio.gather(*asked) for finding in findings]


async def probe_listener(
    listener: ListenerEntry[Any, Any], address: ListenAddress, has_tls: bool = False
) -> Sequence[Finding]:
    """Connect to a listener, at once within TLS or not, and ask it; one that does not answer is a finding."""
    name = listener.name
    if isinstance(address, TcpAddress) and address.port == 0:
        return [PORT_UNKNOWN(name=name)]
    try:
        async with asyncio.timeout(_ANSWER_SECONDS):
            reader, writer = await connect(address, has_tls)
            try:
                conversation = Conversation(name, address, reader, writer)
                return await listener.probe(conversation)
            finally:
                writer.transport.abort()
    except PermissionError as error:
        return [failure(f"listener.{name}", error)]
    except TimeoutError:
        return [UNREACHABLE(name=name, address=address, error=f"no answer within {_ANSWER_SECONDS:g} s")]
    except (OSError, EOFError, ValueError) as error:  # a line that is too long is a ValueError
        return [UNREACHABLE(name=name, address=address, error=str(error) or type(error).__name__)]


async def connect(
    address: ListenAddress, has_tls: bool = False
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to where a listener listens; one that listens at all addresses is asked at loopback."""
    context = unchecked_tls() if has_tls else None
    if isinstance(address, UnixAddress):
        server_name = "" if has_tls else None
        return await asyncio.open_unix_connection(str(address.path), ssl=context, server_hostname=server_name)
    return await asyncio.open_connection(_ANY_HOST.get(address.host, address.host), address.port, ssl=context)


async def examine_in_redis(listener: ListenerEntry[Any, Any], site: Site) -> Sequence[Finding]:
    """Ask Redis about a listener without a socket. A Redis that is away is the finding of another check."""
    if listener.examine is None or not site.has_redis_to_ask:
        return []
    try:
        async with open_running_redis(site.settings) as clients:
            return await listener.examine(clients.client, ModelKeys(site.settings.model.name))
    except (ConfigError, StoreUnavailable):
        return []


AWAY = problem(
    "next_hop",
    "No mail can be delivered to the next hop {name}: {problem}.",
    "Start the server in relay.next_hop, correct relay.tls and the login, or free disk space for the Maildir. "
    "Until then mail is deferred; see the daemon's log.",
)
READY = ok("next_hop", "The next hop {name} accepts mail.")
LOGIN_AWAY = problem(
    "user_page",
    "No user can log in with a password: {problem}.",
    "Start the server in user_page.login, and give the daemon's user access to its socket. The authorities of "
    "the system must have signed the certificate of an IMAP server.",
)
LOGIN_READY = ok("user_page", "The server that verifies users' passwords answers.")

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
    name = address or site.settings.maildir_folder
    if not found:
        return [READY(name=name)]
    reason = await _reason(site.settings.relay) if isinstance(next_hop, SmtpNextHop) else ""
    return [AWAY(name=name, problem=found + reason)]


async def _reason(relay: RelaySettings) -> str:
    """Connect to a server that cannot be used, and return in parentheses what the system says of it."""
    try:
        async with asyncio.timeout(_SECONDS):
            connection, _ = await open_connection(relay, make_tls_context(relay))
            connection.quit()
    except (RelayUnavailable, OSError) as error:  # a TimeoutError is an OSError
        cause = error.__cause__ or error
        text = getattr(cause, "strerror", None) or str(cause)
        return f" ({text})" if text else ""
    return ""


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
