"""Where Redis is, how to log in there, and TLS with one context for many connections.

Rules: redis-py makes a context for each connection, on the event loop: reading the authorities of the system takes
40 to 130 ms, and a connection is opened every two seconds. It also trusts the authorities of the system beside a
file that is named. So a context is made here, and anew where one of its files has changed, as when a certificate
is renewed.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from redis.asyncio import SSLConnection

if TYPE_CHECKING:
    from collections.abc import Mapping

    from redis.asyncio.connection import RedisSSLContext


NodeAddress: TypeAlias = tuple[str, int]
"""Host and port of a server."""


class TlsOptions(NamedTuple):
    """The files of TLS: certificate authorities (None: those of the system), and a certificate with its key."""

    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None

    def arguments(self) -> dict[str, Any]:
        """The arguments of a TLS connection of redis-py."""
        given = {"ssl_ca_certs": self.ca_file, "ssl_certfile": self.cert_file, "ssl_keyfile": self.key_file}
        return {name: value for name, value in given.items() if value is not None}


class SentinelNodes(NamedTuple):
    """The Sentinels that know where the primary ``service`` is."""

    addresses: tuple[NodeAddress, ...]
    service: str


class ClusterNodes(NamedTuple):
    """Some nodes of a cluster."""

    addresses: tuple[NodeAddress, ...]


@dataclass(frozen=True, slots=True)
class ConnectionOptions:
    """Where Redis is, and the deadline of a command.

    ``server`` is a ``redis://``, ``rediss://`` or ``unix://`` URL, or the nodes that know the primary; with nodes
    ``tls`` says whether TLS is used. Where ``model`` is set, it becomes part of the connections' name (CLIENT
    SETNAME); a cluster needs it, since each model is on one of its nodes.
    """

    server: str | SentinelNodes | ClusterNodes
    password: str | None = field(default=None, repr=False)
    timeout_seconds: float = 5.0
    model: str | None = None
    user: str | None = field(default=None, repr=False)
    tls: TlsOptions | None = None

    def login_arguments(self) -> dict[str, Any]:
        """How to log in, beside what a URL says, as arguments of a connection of redis-py."""
        given = {"username": self.user, "password": self.password}
        return {name: value for name, value in given.items() if value is not None}

    def tls_arguments(self) -> dict[str, Any]:
        """The files of TLS, as arguments of a connection of redis-py."""
        return self.tls.arguments() if self.tls else {}


def tls_connection_class() -> type[SSLConnection]:
    """A class of connections that share one context; their options are the same."""
    context: ssl.SSLContext | None = None
    states: list[tuple[int, int, int]] = []

    class TlsConnection(SSLConnection):
        def _connection_arguments(self) -> Mapping[str, Any]:
            nonlocal context, states
            states_now = _file_states(self.ssl_context)
            if context is None or states_now != states:
                context, states = _make_context(self.ssl_context), states_now
            self.ssl_context.context = context
            return super()._connection_arguments()

    return TlsConnection


def _make_context(options: RedisSSLContext) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=options.ca_certs, capath=options.ca_path)
    context.check_hostname = options.check_hostname
    context.verify_mode = options.cert_reqs
    if options.certfile:
        context.load_cert_chain(options.certfile, options.keyfile)
    return context


def _file_states(options: RedisSSLContext) -> list[tuple[int, int, int]]:
    paths = [path for path in (options.ca_certs, options.certfile, options.keyfile) if path]
    states = [Path(path).stat() for path in paths]
    return [(state.st_ino, state.st_mtime_ns, state.st_size) for state in states]
