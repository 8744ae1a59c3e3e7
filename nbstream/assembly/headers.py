"""How messages are read and what is done to their header, from settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbstream.assembly.filter import message_limits
from nbstream.policy.header_policy import HeaderPolicy
from nbstream.policy.incoming_message import MessageReader

if TYPE_CHECKING:
    from nbstream.config import Settings


def make_header_policy(settings: Settings) -> HeaderPolicy:
    """Return what is done to the header of checked mail."""
    return HeaderPolicy(settings.model.name, shows_clues=settings.headers.clues)


def make_message_reader(settings: Settings) -> MessageReader:
    """Return what makes messages of bytes, the same for every way in."""
    return MessageReader(message_limits(settings), make_header_policy(settings).removed_from_incoming)
