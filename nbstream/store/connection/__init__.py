"""Connections to Redis: where the primary is, the client that uses it, and what a server could lose."""

from nbstream.store.connection.client import ConnectionOptions, is_named_after, open_client
from nbstream.store.connection.durability import durability_warnings

__all__ = ["ConnectionOptions", "durability_warnings", "is_named_after", "open_client"]
