"""One-time links to the page, for commands: they load nothing of the page itself."""

from __future__ import annotations

import ipaddress
import shlex
from dataclasses import replace
from typing import TYPE_CHECKING

from nbstream.addresses import ListenAddress, TcpAddress
from nbstream.daemon.assembly.store import open_running_redis
from nbstream.store.logins import PageSessionStore
from nbstream.store.model.keys import ModelKeys

if TYPE_CHECKING:
    from nbstream.daemon.config import Settings


_FORWARDED_PORT = 11334


async def create_page_link(settings: Settings, role: str, name: str) -> str:
    """Return the path and query of a new link, for a role of the page; ``name`` is who has it.

    Raises ``ConfigError`` or ``StoreUnavailable`` where Redis cannot be used.
    """
    async with open_running_redis(settings) as clients:
        store = PageSessionStore(clients.client, ModelKeys(settings.model.name))
        return f"/ui/login?link={await store.create_link(role, name)}"


def link_url(address: ListenAddress, path: str) -> str:
    """Return the URL for a browser on this machine; that of a unix socket is reached as ``link_note`` says."""
    if isinstance(address, TcpAddress):
        return f"http://{_reachable(address)}{path}"
    return f"http://localhost:{_FORWARDED_PORT}{path}"


def link_note(address: ListenAddress) -> str:
    """Return what to do before the link can be used."""
    once = "The link can be used once, within ten minutes."
    if isinstance(address, TcpAddress):
        target = _reachable(address)
        return f"{once} From another machine, forward the port first:\n  ssh -N -L {address.port}:{target} HOST"
    return (
        f"{once} A browser cannot reach a unix socket. Forward a port to it first, from\n"
        f"your own machine or with HOST localhost:\n"
        f"  ssh -N -L {_FORWARDED_PORT}:{shlex.quote(str(address.path))} HOST"
    )


def _reachable(address: TcpAddress) -> TcpAddress:
    """Return the address for a client on this machine: one that means all addresses cannot be connected to."""
    try:
        listening = ipaddress.ip_address(address.host or "0.0.0.0")  # noqa: S104 - nothing is bound here
    except ValueError:
        return address
    if not listening.is_unspecified:
        return address
    return replace(address, host="127.0.0.1" if listening.version == 4 else "::1")
