"""A one-time link to the page, as an administrator can use it."""

from __future__ import annotations

import shlex
from dataclasses import replace

from nbstream.listeners.sockets import ListenAddress, TcpListenAddress

_ANY_HOST = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104 - nothing is bound here
_FORWARDED_PORT = 11334


def link_url(address: ListenAddress, path: str) -> str:
    """Return the URL for a browser on this machine; that of a unix socket is reached as ``link_note`` says."""
    if isinstance(address, TcpListenAddress):
        return f"http://{replace(address, host=_ANY_HOST.get(address.host, address.host))}{path}"
    return f"http://localhost:{_FORWARDED_PORT}{path}"


def link_note(address: ListenAddress) -> str:
    """Return what to do before the link can be used."""
    once = "The link can be used once, within ten minutes."
    if isinstance(address, TcpListenAddress):
        if address.port == 0:
            return f"{once} Put the port in that the daemon has logged."
        target = replace(address, host=_ANY_HOST.get(address.host, address.host))
        return f"{once} From another machine, forward the port first:\n  ssh -N -L {address.port}:{target} HOST"
    return (
        f"{once} A browser cannot reach a unix socket. Forward a port to it first, from\n"
        f"your own machine or with HOST localhost:\n"
        f"  ssh -N -L {_FORWARDED_PORT}:{shlex.quote(str(address.path))} HOST"
    )
