"""The listeners: each is asked in its own protocol, at the address of the configuration."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from nbstream.addresses import TcpAddress, UnixAddress
from nbstream.assembly.store import open_running_redis
from nbstream.daemon.listeners import LISTENERS, METRICS
from nbstream.doctor.certificates import listener_certificate
from nbstream.doctor.examination import failure
from nbstream.errors import ConfigError, StoreUnavailable
from nbstream.findings import note, problem
from nbstream.server.probe import Conversation, unchecked_tls
from nbstream.store.model.keys import ModelKeys

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nbstream.addresses import ListenAddress
    from nbstream.doctor.examination import Site
    from nbstream.findings import Finding
    from nbstream.server.listener import ListenerEntry

UNREACHABLE = problem(
    "listener.{name}",
    "listeners.{name} at {address} does not answer: {error}.",
    "See in the log of the daemon whether it listens there; the address may have changed without a restart.",
)
PORT_UNKNOWN = note(
    "listener.{name}",
    "listeners.{name} was not asked: the system chooses its port.",
    "Give it a port, or find the one it has in the log of the daemon.",
)
NONE = problem(
    "listener", "No listener is on, so that no mail can come in.", "Turn one on in the section listeners."
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
                findings = await listener.probe(conversation)
                certificate = conversation.certificate
                if certificate is None:
                    return findings
                return [*findings, listener_certificate(name, certificate, datetime.now(UTC))]
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
