"""Where Redis is, and how to log in there."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

NodeAddress: TypeAlias = tuple[str, int]
"""Host and port of a server."""


@dataclass(frozen=True, slots=True)
class Login:
    """A user of Redis, None for ``default``, and a password; neither is in a repr."""

    user: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)

    def arguments(self) -> dict[str, Any]:
        """The arguments of a connection of redis-py."""
        given = {"username": self.user, "password": self.password}
        return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True, slots=True)
class TlsOptions:
    """The files of TLS: certificate authorities (None: those of the system), and a certificate with its key."""

    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None

    def arguments(self) -> dict[str, Any]:
        """The arguments of a TLS connection of redis-py."""
        given = {"ssl_ca_certs": self.ca_file, "ssl_certfile": self.cert_file, "ssl_keyfile": self.key_file}
        return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True, slots=True)
class SentinelNodes:
    """The Sentinels that know where the primary ``service`` is, and the login of the Sentinels themselves."""

    addresses: tuple[NodeAddress, ...]
    service: str
    login: Login = Login()


@dataclass(frozen=True, slots=True)
class ClusterNodes:
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

    @property
    def login(self) -> Login:
        """How to log in, beside what a URL says."""
        return Login(self.user, self.password)
