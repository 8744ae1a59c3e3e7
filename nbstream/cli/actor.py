"""Who teaches by a command: the user whose process it is, whatever the environment says."""

from __future__ import annotations

import os
import pwd


def current_user() -> str:
    """``current_user`` and the name, or the number of one without a name; no peer's address reads so."""
    number = os.getuid()
    try:
        return f"user {pwd.getpwuid(number).pw_name}"
    except KeyError:
        return f"user {number}"
