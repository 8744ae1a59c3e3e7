"""Who teaches by a command: the user that the process runs as, whatever the environment says."""

from __future__ import annotations

import os
import pwd


def current_user() -> str:
    """Return ``user`` and the user's name, or its number where it has none; no peer's address looks like this."""
    number = os.getuid()
    try:
        return f"user {pwd.getpwuid(number).pw_name}"
    except KeyError:
        return f"user {number}"
