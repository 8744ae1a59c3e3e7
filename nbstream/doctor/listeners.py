"""The listeners: each is asked in its own protocol, at the address of the configuration."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from nbstream.addresses import TcpAddress, UnixAddress
from nbstream.assembly.store import open_running_redis
from nbstream.daemon.listeners import LISTENERS
from nbstream.doctor import listener_probes as probes
from nbstream.doctor.certificates import listener_certificate
from nbstream.doctor.examination import failure
from nbstream.errors import ConfigError, StoreUnavailable
from nbstream.findings import note, ok, problem, warning
from nbstream.server import names
from nbstream.store.model.keys import ModelKeys
from nbstream.store.redis_errors import store_errors
from nbstream.store.stream_queue import CONSUMER_GROUP

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from nbstream.addresses import ListenAddress
    from nbstream.doctor.examination import Site
    from nbstream.findings import Finding

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
STREAM_MISSING = problem(
    "listener.stream",
    "The stream {key} has no consumer group {group}: nobody reads it.",
    "See in the log of the daemon why the stream listener does not run.",
)
DEAD_LETTERS = warning(
    "listener.stream",
    "{count} entries of the stream were given up and lie in {key}.",
    "Look at them (XRANGE {key} - +), mend what was wrong, and add them to the stream again.",
)
STREAM = ok("listener.stream", "The stream {key} is read; {pending} entries are in hand.")

PROBES: Mapping[str, Callable[[probes.Conversation], Awaitable[Sequence[Finding]]]] = {
    names.SMTP: probes.probe_smtp,
    names.LMTP: probes.probe_lmtp,
    names.HTTP: probes.probe_http,
    names.METRICS: probes.probe_metrics,
    names.SPAMD: probes.probe_spamd,
    names.MILTER: probes.probe_milter,
}
"""By the name of the listener; one that is not here is only connected to."""

_ANSWER_SECONDS = 8.0
_ANY_HOST = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - recognised here, not listened on


async def examine_listeners(site: Site) -> Sequence[Finding]:
    """Ask all listeners that are on, at once; where no daemon runs, that is the finding of another check."""
    listeners = [listener for listener in LISTENERS if listener.is_on(site.settings)]
    if not any(listener.name != names.METRICS for listener in listeners):
        return [NONE()]
    if not site.may_have_daemon:
        return []
    asked = []
    for listener in listeners:
        address = listener.listen_address(site.settings)
        has_tls = getattr(listener.section(site.settings), "tls", "off") == "implicit"
        asked.append(examine_stream(site) if address is None else probe_listener(listener.name, address, has_tls))
    return [finding for findings in await asyncio.gather(*asked) for finding in findings]


async def probe_listener(name: str, address: ListenAddress, has_tls: bool = False) -> Sequence[Finding]:
    """Connect to a listener, at once within TLS or not, and ask it; one that does not answer is a finding."""
    if isinstance(address, TcpAddress) and address.port == 0:
        return [PORT_UNKNOWN(name=name)]
    try:
        async with asyncio.timeout(_ANSWER_SECONDS):
            reader, writer = await connect(address, has_tls)
            try:
                conversation = probes.Conversation(name, address, reader, writer)
                findings = await PROBES.get(name, probes.probe_connection)(conversation)
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
    context = probes.unchecked_tls() if has_tls else None
    if isinstance(address, UnixAddress):
        server_name = "" if has_tls else None
        return await asyncio.open_unix_connection(str(address.path), ssl=context, server_hostname=server_name)
    return await asyncio.open_connection(_ANY_HOST.get(address.host, address.host), address.port, ssl=context)


async def examine_stream(site: Site) -> Sequence[Finding]:
    """See whether the stream of programs is read, and whether entries were given up.

    A Redis that is away is the finding of another check.
    """
    if not site.has_redis_to_ask:
        return []
    keys = ModelKeys(site.settings.model.name)
    try:
        async with open_running_redis(site.settings) as clients:
            with store_errors():
                exists = await clients.client.exists(keys.incoming)
                groups: Any = await clients.client.xinfo_groups(keys.incoming) if exists else []
                dead: Any = await clients.client.xlen(keys.dead_letters)
    except (ConfigError, StoreUnavailable):
        return []
    group = next((group for group in groups if group["name"] == CONSUMER_GROUP.encode()), None)
    if group is None:
        return [STREAM_MISSING(key=keys.incoming, group=CONSUMER_GROUP)]
    findings = [STREAM(key=keys.incoming, pending=group["pending"])]
    if dead:
        findings.append(DEAD_LETTERS(count=dead, key=keys.dead_letters))
    return findings
