"""The settings of what is remembered of messages."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from nbstream.config.section import Section


class MemorySettings(Section):
    """What is remembered of checked messages, for feedback by id and for explanations."""

    hours: Annotated[int, Field(ge=1, le=8760)] = 72
    """How long a checked message is remembered."""

    messages: Annotated[int, Field(ge=0, le=10_000_000)] = 20_000
    """How many checked messages are remembered; the oldest are dropped first. 0 remembers none. Each takes about 2
    kB of Redis.
    """

    explanations: bool = True
    """Remember also why each checked message got its verdict, for ``nbstream explain ID``. Each explanation takes
    about 2 kB of Redis.
    """

    envelope: bool | None = None
    """Remember also the sender, the recipients (up to ten of the last check and twenty of checks before it), the
    subject and the action of each checked message, for the list of messages on the page. ``null`` is ``true``
    where ``listeners.http`` is on, and ``false`` elsewhere. With its indices it takes about 1.4 kB of Redis, and
    0.6 kB where the page lists messages without envelopes.
    """
