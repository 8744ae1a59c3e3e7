"""Which changes of the history somebody wants to see or to take back: the fields of a form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from urllib.parse import urlencode

from nbstream.bayes.counts import CLASSES
from nbstream.listeners.http.page.foreign_text import visible_text
from nbstream.listeners.http.page.requests import PageRefused
from nbstream.store.model.history import HistorySelection
from nbstream.wire.moments import parse_moment

MILLISECOND = 0.001
"""The precision of the times of the history, in seconds."""

_MAX_LENGTH = 200


def form_time(at: float) -> str:
    """Return a time, in seconds since the epoch, as a field of the form has it."""
    return datetime.fromtimestamp(at).astimezone().isoformat()


@dataclass(frozen=True, slots=True)
class ChangeSelection:
    """The fields as they were written; an empty one selects any."""

    since: str = ""
    until: str = ""
    actor: str = ""
    source: str = ""
    label: str = ""
    id: str = ""

    @classmethod
    def from_fields(cls, fields: Mapping[str, str]) -> ChangeSelection:
        """Return what is in the fields of a form or of a query."""
        names = cls.__dataclass_fields__
        return cls(**{name: fields[name].strip()[:_MAX_LENGTH].strip() for name in names if name in fields})

    def of_history(self, now: float) -> HistorySelection:
        """Return the selection; ages count from ``now``. Raises ``PageRefused`` for a wrong one."""
        try:
            since = parse_moment(self.since, now) if self.since else 0.0
            until = parse_moment(self.until, now) if self.until else None
        except ValueError as error:
            raise PageRefused(400, visible_text(str(error))) from error  # it has what was written
        if self.label not in {"", *CLASSES}:
            raise PageRefused(400, f"label must be one of {', '.join(CLASSES)}")
        return HistorySelection(
            since,
            until,
            actor=self.actor or None,
            label=self.label or None,
            message_key=self.id or None,
            source=self.source or None,
        )

    def query(self, **others: str) -> str:
        """Return the fields that are not empty, and ``others``, as the query of a link."""
        return urlencode({name: value for name, value in (asdict(self) | others).items() if value})
