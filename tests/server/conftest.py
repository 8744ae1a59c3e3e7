"""Releases from the quarantine are tried against the scripted next hops of ``tests.delivery``."""

from tests.harness.scripted import play, relay_to

__all__ = ["play", "relay_to"]
