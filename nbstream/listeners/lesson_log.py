"""The line of the log that says what one lesson has changed, the same for every listener."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from nbstream.logs import event_fields

if TYPE_CHECKING:
    from nbstream.filter import Lesson

_log = logging.getLogger(__name__)


def log_lesson(lesson: Lesson, source: str, actor: str) -> None:
    """Log one lesson of ``actor``, which came through the listener or command ``source``."""
    _log.info(
        "feedback",
        extra=event_fields(
            source=source,
            actor=actor,
            id=lesson.after.id,
            label=lesson.label,
            outcome=str(lesson.outcome),
            before=round(lesson.before.probability, 6),
            after=round(lesson.after.probability, 6),
        ),
    )
