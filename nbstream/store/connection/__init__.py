"""Connections to Redis: where the primary is, the client that uses it, and what a server could lose."""

from nbstream.store.connection.client import client_of, look_for_primary, open_client
from nbstream.store.connection.durability import durability_risks
from nbstream.store.connection.options import (
    ClusterNodes,
    ConnectionOptions,
    SentinelNodes,
    TlsOptions,
)
from nbstream.store.connection.primary import Primary, ServerGuard, open_primary, primary_of

__all__ = [
    "ClusterNodes",
    "ConnectionOptions",
    "Primary",
    "SentinelNodes",
    "ServerGuard",
    "TlsOptions",
    "client_of",
    "durability_risks",
    "look_for_primary",
    "open_client",
    "open_primary",
    "primary_of",
]
