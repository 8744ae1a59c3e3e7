"""Where a label comes from."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LessonSource:
    """The way by which a label came, and who gave it.

    ``source`` is the kind of listener or command, such as ``smtp``, ``http`` or ``cli``. ``actor`` is a client's
    address or a user name; it is empty where nobody is known.
    """

    source: str
    actor: str = ""
