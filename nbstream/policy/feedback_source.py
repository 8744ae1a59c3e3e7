"""Where a label comes from, and whether the same label given again reinforces."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

COMMAND_SOURCE = "cli"
"""The source of what the commands teach."""

REINFORCEMENT_PAUSE_SECONDS = 600.0
"""For this long the same label from the same source and actor is taken for a retry or a redelivery."""


_USER = "user "


def actor_of_user(user: str) -> str:
    """Return the actor that stands for a user of the mail server, whom a trusted client names."""
    return _USER + user


def user_of_actor(actor: str) -> str:
    """Return the user that an actor stands for, empty where it is no user of the mail server."""
    return actor.removeprefix(_USER) if actor.startswith(_USER) else ""


class Reinforcement(StrEnum):
    """Whether a label that a message has already may be reinforced, if the verdict still contradicts it.

    What programs send in bulk, or send again, never reinforces. A person does, by giving the label by hand once
    more: at once from another source or as another actor, else after ``REINFORCEMENT_PAUSE_SECONDS``. A person who
    says explicitly that a label is meant reinforces at once.
    """

    NEVER = "never"
    AFTER_PAUSE = "after_pause"
    AT_ONCE = "at_once"


class FeedbackSource(NamedTuple):
    """The way by which a label came, and who gave it.

    ``source`` is the kind of listener or command, such as ``smtp``, ``http`` or ``cli``. ``actor`` is a client's
    address or a user name; it is empty where nobody is known. ``reinforcement`` says whether the label may be one
    that is reinforced, and ``reinforced_version`` on which ledger entry alone: the one that a person has seen.
    None stands for the one that there is.
    """

    source: str
    actor: str = ""
    reinforcement: Reinforcement = Reinforcement.NEVER
    reinforced_version: str | None = None

    def seconds_until_reinforcing(self, last_source: str, last_actor: str, seconds_since: float) -> float | None:
        """Return in how many seconds this source may reinforce a label, 0 for now, or None for never.

        ``last_source`` and ``last_actor`` gave the label the last time, ``seconds_since`` ago. These are negative
        where the clock of another machine is ahead. If it is ahead by more than the pause, nobody knows when the
        label was given, and this source may reinforce now.
        """
        if self.reinforcement is Reinforcement.NEVER:
            return None
        if self.reinforcement is Reinforcement.AT_ONCE or (self.source, self.actor) != (last_source, last_actor):
            return 0.0
        if seconds_since < -REINFORCEMENT_PAUSE_SECONDS:
            return 0.0
        return max(0.0, min(REINFORCEMENT_PAUSE_SECONDS, REINFORCEMENT_PAUSE_SECONDS - seconds_since))
