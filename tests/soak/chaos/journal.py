"""The journal of a run: what happened, as JSON lines, and what was acknowledged to clients.

Rules: what a client was told is written down before the client does the next thing. A request without a definite
answer may have been carried out, now or later, at most as often as it was sent.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any


class MailOutcome(StrEnum):
    """What a client knows of one attempt to send a message."""

    ACKNOWLEDGED = "acknowledged"
    REFUSED = "refused"
    """The client got another reply than 250."""
    NOT_SENT = "not sent"
    """There was no connection, or it broke before the message was sent."""
    UNKNOWN = "unknown"
    """The connection broke, or the client waited too long, after the message was sent."""


@dataclass(frozen=True, slots=True)
class MailAttempt:
    """One attempt to send a message; ``begun`` and ``ended`` are seconds since the begin of the run."""

    mail: int
    attempt: int
    host: str
    begun: float
    ended: float
    outcome: MailOutcome
    reply: str


class FeedbackOutcome(StrEnum):
    """What a client knows of one attempt to teach."""

    CHANGED = "changed"
    """It was acknowledged that this attempt changed what the message is learned as."""
    SAME = "same"
    """It was acknowledged that nothing had to be changed."""
    DONE = "done"
    """It was acknowledged that the message is learned so now; the client does not know who changed it."""
    UNKNOWN = "unknown"
    """There was no answer, or one that promises nothing: it may have been learned, or be learned later."""
    NOT_SENT = "not sent"
    """There was no connection, or the answer says that nothing was done."""


ACKNOWLEDGEMENTS = frozenset({FeedbackOutcome.CHANGED, FeedbackOutcome.SAME, FeedbackOutcome.DONE})
"""The outcomes that promise what the message is learned as."""


@dataclass(frozen=True, slots=True)
class LessonAttempt:
    """One attempt to teach the message with ``key`` as ``label``; None unlearns it.

    ``tries`` is how often one attempt may be carried out without an answer: an entry of a stream several times.
    ``host`` is the one that was asked, None where any of them may have taken it.
    """

    key: str
    label: str | None
    route: str
    begun: float
    ended: float
    outcome: FeedbackOutcome
    reply: str
    tries: int = 1
    host: str | None = None


@dataclass(frozen=True, slots=True)
class StreamRequest:
    """One entry for the stream; ``entry`` is its stream id, None where the reply to XADD was lost."""

    id: str
    entry: str | None


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault, from its begin until what it hit works again, in seconds since the begin of the run."""

    kind: str
    target: str
    begun: float
    ended: float


@dataclass
class Journal:
    """What happened so far; every entry is also a line of ``file``."""

    file: Path
    mail: list[MailAttempt] = field(default_factory=list)
    lessons: list[LessonAttempt] = field(default_factory=list)
    requests: list[StreamRequest] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    checks: Counter[str] = field(default_factory=Counter)
    problems: list[tuple[float, str]] = field(default_factory=list)
    """What contradicts the rules as soon as it is seen, with its time."""

    def __post_init__(self) -> None:
        self._begin = time.monotonic()
        self._lines = self.file.open("w", buffering=1, encoding="utf-8")

    def close(self) -> None:
        self._lines.close()

    def start_clock(self) -> None:
        """Let the run begin now: until here was the start."""
        self._begin = time.monotonic()

    def now(self) -> float:
        """Return the seconds since the begin of the run."""
        return round(time.monotonic() - self._begin, 3)

    def note(self, what: str, **fields: Any) -> None:
        """Write one line."""
        self._lines.write(json.dumps({"at": self.now(), "what": what, **fields}) + "\n")

    def add_mail(self, attempt: MailAttempt) -> None:
        self.mail.append(attempt)
        self.note("mail", **asdict(attempt))

    def add_lesson(self, attempt: LessonAttempt) -> None:
        self.lessons.append(attempt)
        self.note("lesson", **asdict(attempt))

    def add_request(self, request: StreamRequest) -> None:
        self.requests.append(request)
        self.note("stream request", **asdict(request))

    def add_fault(self, fault: Fault) -> None:
        self.faults.append(fault)
        self.note("fault ended", **asdict(fault))

    def add_problem(self, text: str) -> None:
        self.problems.append((self.now(), text))
        self.note("problem", text=text)
