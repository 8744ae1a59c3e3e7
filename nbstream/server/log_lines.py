"""The lines of the log about a message that was answered and about a lesson, the same for every listener."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from nbstream.logs import event_fields

if TYPE_CHECKING:
    from nbstream.filter import Check, Lesson


_log = logging.getLogger(__name__)


def log_message(
    listener: str, check: Check | None, seconds: float, *, entry: str | None = None, **details: str | None
) -> None:
    """Log that a message was answered after ``seconds``.

    ``check`` is None where there is no verdict, ``entry`` the stream id of a message out of a stream; ``details``
    are the further fields of the listener's line, of which one that is None is shown as missing.
    """
    fields = {
        "listener": listener,
        **({"entry": entry} if entry is not None else {}),
        "id": check.id if check else None,
        "verdict": check.outcome if check else "none",
        "probability": round(check.probability, 6) if check else None,
        **({"kind": check.kind.kind} if check and check.kind else {}),
        **({"list": check.listed.name, "list_owner": str(check.listed.owner)} if check and check.listed else {}),
        **({"own": str(check.own)} if check and check.own else {}),
        **details,
        "milliseconds": round(seconds * 1000, 2),
    }
    _log.info("message", extra=event_fields(**fields))


def log_lesson(lesson: Lesson, source: str, actor: str) -> None:
    """Log one lesson of ``actor``, which came through the listener or command ``source``."""
    _log.info(
        "feedback",
        extra=event_fields(
            source=source,
            actor=actor,
            id=lesson.after.id,
            label=lesson.class_name,
            outcome=str(lesson.outcome),
            before=round(lesson.before.probability, 6),
            after=round(lesson.after.probability, 6),
        ),
    )
