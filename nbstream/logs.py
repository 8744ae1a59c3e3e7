"""Structured logs: one line per event, text on a terminal and JSON otherwise.

Rules: text from outside is escaped, because no message, reply or address may forge a line or move a terminal's
cursor. ``extra=event_fields(name=value, ...)`` gives an event its fields. An event with the field ``peer`` reports
that a client was refused: the number of such lines in a minute is limited.
"""

from __future__ import annotations

import logging
import sys
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any, Literal

from nbstream.json_text import encode_json
from nbstream.settings.values import Section

_QUOTED_CHARACTERS = frozenset(' ="\\')
_LINES_PER_PEER = 10  # in a minute: fail2ban, with its default settings, acts on the fifth within ten minutes
_LINES_OF_ALL_PEERS = 200  # in a minute


class JsonFormatter(logging.Formatter):
    """Formats a record as one JSON object on a line: time, level, event, then the event's fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of one record."""
        entry: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return encode_json(entry).decode("ascii")


class TextFormatter(logging.Formatter):
    """Formats a record as time, level, event and ``name=value`` fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of one record; an exception follows on lines of its own."""
        time = datetime.fromtimestamp(record.created).astimezone().strftime("%Y-%m-%d %H:%M:%S")
        fields = "".join(
            f" {name}={_format_value(value)}" for name, value in getattr(record, "fields", {}).items()
        )
        line = f"{time} {record.levelname.lower():7} {_escape(record.getMessage())}{fields}"
        if record.exc_info:
            line += "\n" + "\n".join(map(_escape, self.formatException(record.exc_info).split("\n")))
        return line


def _format_value(value: Any) -> str:
    text = _escape("-" if value is None else str(value))
    return f'"{text}"' if not text or _QUOTED_CHARACTERS & set(text) else text


def _escape(text: str) -> str:
    """Return ``text`` with each character that is not printable written as an escape."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


class PeerRateLimitFilter:
    """Limits the lines that have a ``peer``: a client that is refused again and again must not fill the disk.

    The next line that passes says in ``left_out`` how many lines were left out before it.
    """

    def __init__(self) -> None:
        self._minute_started = 0.0
        self._lines_by_peer: Counter[str] = Counter()
        self._suppressed = 0

    def __call__(self, record: logging.LogRecord) -> bool:
        """Return whether this line is written, as a filter of a logging handler."""
        fields = getattr(record, "fields", {})
        if "peer" not in fields:
            return True
        if not 0 <= record.created - self._minute_started < 60:
            self._minute_started, self._lines_by_peer = record.created, Counter()
        peer = fields["peer"]
        if self._lines_by_peer[peer] >= _LINES_PER_PEER or self._lines_by_peer.total() >= _LINES_OF_ALL_PEERS:
            self._suppressed += 1
            return False
        self._lines_by_peer[peer] += 1
        if self._suppressed:
            record.fields = {**fields, "left_out": self._suppressed}
            self._suppressed = 0
        return True


def _add_fields(fields: Mapping[str, object], record: logging.LogRecord) -> bool:
    record.fields = {**fields, **getattr(record, "fields", {})}
    return True


def event_fields(**fields: object) -> dict[str, Mapping[str, object]]:
    """Return the ``extra`` of a logging call that gives an event these fields."""
    return {"fields": fields}


class LogSettings(Section):
    """Format and level of the log."""

    format: Literal["auto", "text", "json"] = "auto"
    """``auto`` is text on a terminal and JSON otherwise."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """The lowest level that is logged."""


def set_up_logging(settings: LogSettings, fields: Mapping[str, object] | None = None) -> None:
    """Send all logs to standard error; every line has these ``fields`` before the fields of its event."""
    text = settings.format == "text" or (settings.format == "auto" and sys.stderr.isatty())
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(TextFormatter() if text else JsonFormatter())
    handler.addFilter(PeerRateLimitFilter())
    if fields:
        handler.addFilter(partial(_add_fields, fields))
    logging.basicConfig(level=settings.level.upper(), handlers=[handler], force=True)
    # No line shows the thread, the process or the caller: then logging need not look them up for each line.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    logging._srcfile = None  # type: ignore[assignment,unused-ignore]  # logging's own switch for the caller
    logging.logAsyncioTasks = False  # type: ignore[attr-defined,unused-ignore]  # Python 3.12
    for name in ("aiohttp.access", "asyncio"):  # they log a line for each request
        logging.getLogger(name).setLevel(logging.WARNING)
    # It warns of each unknown command, and a port scan sends many.
    logging.getLogger("mail.log").setLevel(logging.ERROR)
