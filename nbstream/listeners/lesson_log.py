"""The line of the log that says what one lesson has changed, the same for every listener."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nbstream.filter import Lesson

_log = logging.getLogger(__name__)


def log_lesson(lesson: Lesson, source: str, actor: str) -> None:
    """The log's line of one lesson, the same for every door."""
    fields = {
        "source": source,
        "actor": actor,
        "id": lesson.after.id,
        "label": lesson.label,
        "outcome": str(lesson.outcome),
        "before": round(lesson.before.probability, 6),
        "after": round(lesson.after.probability, 6),
    }
    _log.info("feedback", extra={"fields": fields})
