"""Structured logs: one line per event, text on a terminal and JSON otherwise.

Rules: whatever comes from outside is escaped, so that no message, reply or address can forge a line or move a
terminal's cursor. ``extra={"fields": {...}}`` gives an event its fields. An event with the field ``peer`` tells of
somebody who was refused: of these there are only so many a minute.
"""

from __future__ import annotations

import json
import logging
import sys
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any

_QUOTED = frozenset(' ="\\')
_LINES_OF_ONE = 10  # a minute of one peer: fail2ban, as it comes, acts on the fifth within ten minutes
_LINES_OF_ALL = 200  # and of all, which may be many


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, event, then the event's fields."""

    def format(self, record: logging.LogRecord) -> str:
        """The line of one record."""
        entry: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry)


class TextFormatter(logging.Formatter):
    """Time, level, event and ``name=value`` fields."""

    def format(self, record: logging.LogRecord) -> str:
        """The line of one record; an exception follows on lines of its own."""
        time = datetime.fromtimestamp(record.created).astimezone().strftime("%Y-%m-%d %H:%M:%S")
        fields = "".join(f" {name}={_value(value)}" for name, value in getattr(record, "fields", {}).items())
        line = f"{time} {record.levelname.lower():7} {_escaped(record.getMessage())}{fields}"
        if record.exc_info:
            line += "\n" + "\n".join(map(_escaped, self.formatException(record.exc_info).split("\n")))
        return line


def _value(value: Any) -> str:
    text = _escaped("-" if value is None else str(value))
    return f'"{text}"' if not text or _QUOTED & set(text) else text


def _escaped(text: str) -> str:
    """``text`` with everything that is not printable written as an escape."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


class Strangers:
    """Bounds the lines that tell of a ``peer``: whoever is refused again and again must not fill the disk.

    The next line that is let through says how many were ``left_out`` before it.
    """

    def __init__(self) -> None:
        self._begin = 0.0
        self._lines: Counter[str] = Counter()
        self._left_out = 0

    def __call__(self, record: logging.LogRecord) -> bool:
        """Whether this line is written; a filter of a handler."""
        fields = getattr(record, "fields", {})
        if "peer" not in fields:
            return True
        if not 0 <= record.created - self._begin < 60:
            self._begin, self._lines = record.created, Counter()
        peer = fields["peer"]
        if self._lines[peer] >= _LINES_OF_ONE or self._lines.total() >= _LINES_OF_ALL:
            self._left_out += 1
            return False
        self._lines[peer] += 1
        if self._left_out:
            record.fields = {**fields, "left_out": self._left_out}
            self._left_out = 0
        return True


def _with_fields(fields: Mapping[str, object], record: logging.LogRecord) -> bool:
    record.fields = {**fields, **getattr(record, "fields", {})}
    return True


def set_up(style: str, level: str, fields: Mapping[str, object] | None = None) -> None:
    """Send all logs to standard error; ``style`` is text, json, or auto (text on a terminal).

    Every line has ``fields`` before those of its event.
    """
    text = style == "text" or (style == "auto" and sys.stderr.isatty())
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(TextFormatter() if text else JsonFormatter())
    handler.addFilter(Strangers())
    if fields:
        handler.addFilter(partial(_with_fields, fields))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    # What no line shows need not be found out for each: a third of a line's time.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    logging._srcfile = None  # type: ignore[assignment,unused-ignore]  # its own way to say: nor who called
    logging.logAsyncioTasks = False  # type: ignore[attr-defined,unused-ignore]  # Python 3.12
    for chatty in ("aiohttp.access", "asyncio"):  # a line for each request
        logging.getLogger(chatty).setLevel(logging.WARNING)
    logging.getLogger("mail.log").setLevel(logging.ERROR)  # a warning for each unknown command of any port scan
