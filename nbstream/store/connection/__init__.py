"""Connections to Redis: where the primary is, the client that uses it, and what a server could lose."""

from nbstream.store.connection.client import ConnectionOptions, is_named_after, open_client
from nbstream.store.connection.durability import durability_warnings
from nbstream.store.connection.primary import Primary, ServerGuard, primary_of
from nbstream.store.connection.watch import PrimaryWatch

__all__ = [
    "ConnectionOptions",
    "Primary",
    "PrimaryWatch",
    "ServerGuard",
    "durability_warnings",
    "is_named_after",
    "open_client",
    "primary_of",
]
