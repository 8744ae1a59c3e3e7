"""Who teaches by a command: the user that the process runs as, whatever the environment says."""

from __future__ import annotations

import os

from nbstream.system_users import actor_of_system_user


def current_user(person: str | None = None) -> str:
    """Return ``user`` and the user's name, or its number where it has none; no peer's address looks like this.

    ``person`` is whom the user teaches for, by the user's own word.
    """
    user = actor_of_system_user(os.getuid())
    return f"{user} for {person}" if person else user
